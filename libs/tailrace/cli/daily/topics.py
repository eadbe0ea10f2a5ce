"""`tailrace topic`: list, create, describe, alter, delete."""

from __future__ import annotations

from typing import Annotated

import typer

from tailrace.cli.daily.connection import Bootstrap, client, pairs, table

app = typer.Typer(no_args_is_help=True, help="Topics and their partitions.")
Name = Annotated[str, typer.Argument(help="topic name")]
Settings = Annotated[list[str] | None, typer.Option("--config", "-c", metavar="KEY=VALUE")]


@app.command("list")
def list_topics(bootstrap: Bootstrap = None) -> None:
    """Names of all topics."""
    with client("KafkaAdminClient", bootstrap) as admin:
        for name in sorted(admin.list_topics()):
            typer.echo(name)


@app.command()
def create(
    name: Name,
    partitions: Annotated[int, typer.Option("--partitions", "-p")] = -1,
    replicas: Annotated[int, typer.Option("--replicas", "-r")] = -1,
    config: Settings = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Create a topic; the broker's defaults hold for what is not given."""
    wanted = {"num_partitions": partitions, "replication_factor": replicas, "configs": pairs(config)}
    with client("KafkaAdminClient", bootstrap) as admin:
        admin.create_topics({name: wanted})
    typer.echo(f"created {name}")


@app.command()
def describe(name: Name, bootstrap: Bootstrap = None) -> None:
    """Partitions with leader, replicas, in-sync replicas and offsets."""
    from kafka import TopicPartition
    from kafka.admin import OffsetSpec

    with client("KafkaAdminClient", bootstrap) as admin:
        (topic,) = admin.describe_topics([name])
        if topic["error_code"]:
            typer.echo(f"{name}: no such topic", err=True)
            raise typer.Exit(1)
        partitions = sorted(topic["partitions"], key=lambda partition: partition["partition_index"])
        ids = [TopicPartition(name, partition["partition_index"]) for partition in partitions]
        first = admin.list_partition_offsets(dict.fromkeys(ids, OffsetSpec.EARLIEST))
        last = admin.list_partition_offsets(dict.fromkeys(ids, OffsetSpec.LATEST))
    table(
        ("partition", "leader", "replicas", "isr", "first offset", "end offset"),
        [
            (
                part["partition_index"],
                part["leader_id"],
                ",".join(map(str, part["replica_nodes"])),
                ",".join(map(str, part["isr_nodes"])),
                first[key].offset,
                last[key].offset,
            )
            for part, key in zip(partitions, ids, strict=True)
        ],
    )


@app.command()
def alter(
    name: Name, partitions: Annotated[int, typer.Option("--partitions", "-p")], bootstrap: Bootstrap = None
) -> None:
    """Give a topic more partitions."""
    with client("KafkaAdminClient", bootstrap) as admin:
        admin.create_partitions({name: partitions})
    typer.echo(f"{name} has {partitions} partitions")


@app.command()
def delete(names: Annotated[list[str], typer.Argument(help="topic names")], bootstrap: Bootstrap = None) -> None:
    """Delete topics and their records."""
    with client("KafkaAdminClient", bootstrap) as admin:
        admin.delete_topics(names)
    typer.echo(f"deleted {', '.join(names)}")

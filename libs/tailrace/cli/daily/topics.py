"""`tailrace topic`: list, create, describe, alter, delete. For `tailrace topic producers` see producers.py."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from tailrace.cli.daily.connection import Bootstrap, Json, client, pairs, table
from tailrace.cli.daily.nodes import nodes

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
def describe(name: Name, as_data: Json = False, bootstrap: Bootstrap = None) -> None:
    """Partitions with leader, replicas, in-sync and eligible leader replicas (KIP-966), and offsets."""
    with nodes(bootstrap) as cluster:
        partitions = [part for _, part in sorted(cluster.partitions([name]).items())]
    first, last = _offsets(name, [part.partition_index for part in partitions if part.leader_id >= 0], bootstrap)
    rows = [
        {
            "partition": part.partition_index,
            "leader": None if part.leader_id < 0 else part.leader_id,
            "leader_epoch": part.leader_epoch,
            "replicas": list(part.replica_nodes),
            "isr": list(part.isr_nodes),
            "elr": list(part.eligible_leader_replicas or ()),
            "last_known_elr": list(part.last_known_elr or ()),
            "offline": list(part.offline_replicas),
            "first_offset": first.get(part.partition_index),
            "end_offset": last.get(part.partition_index),
        }
        for part in partitions
    ]
    if as_data:
        typer.echo(json.dumps(rows))
        return
    table(
        (*(key.replace("_", " ") for key in rows[0]),) if rows else ("partition",),
        [tuple(_cell(value) for value in row.values()) for row in rows],
    )


def _cell(value: Any) -> object:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    return "none" if value is None else value


def _offsets(name: str, partitions: list[int], bootstrap: str | None) -> tuple[dict[int, int], dict[int, int]]:
    """First and end offsets of the partitions that somebody leads; none where the leader went meanwhile."""
    from kafka import TopicPartition
    from kafka.admin import OffsetSpec
    from kafka.errors import KafkaError

    ids = [TopicPartition(name, partition) for partition in partitions]
    found = []
    with client("KafkaAdminClient", bootstrap) as admin:
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
            try:
                rows = admin.list_partition_offsets(dict.fromkeys(ids, spec)) if ids else {}
            except KafkaError:
                rows = {}
            found.append({key.partition: row.offset for key, row in rows.items()})
    return found[0], found[1]


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

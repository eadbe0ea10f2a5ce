"""`tailrace group`: list, describe with lag, reset, delete."""

from __future__ import annotations

from typing import Annotated

import typer

from tailrace.cli.daily.connection import Bootstrap, client, table

app = typer.Typer(no_args_is_help=True, help="Consumer groups, their members and their lag.")
Group = Annotated[str, typer.Argument(help="group id")]


@app.command("list")
def list_groups(bootstrap: Bootstrap = None) -> None:
    """All groups with their state."""
    with client("KafkaAdminClient", bootstrap) as admin:
        rows = [
            (group["group_id"], group.get("group_state", ""), group["protocol_type"]) for group in admin.list_groups()
        ]
    table(("group", "state", "protocol"), sorted(rows))


@app.command()
def describe(group: Group, bootstrap: Bootstrap = None) -> None:
    """Members, committed offsets and lag."""
    from kafka.admin import OffsetSpec

    with client("KafkaAdminClient", bootstrap) as admin:
        described = admin.describe_groups([group])[group]
        committed = admin.list_group_offsets(group)[group]
        ends = admin.list_partition_offsets(dict.fromkeys(committed, OffsetSpec.LATEST)) if committed else {}
    typer.echo(f"{group}: {described['group_state']}, {len(described['members'])} members")
    table(
        ("topic", "partition", "committed", "end offset", "lag"),
        [
            (key.topic, key.partition, offset.offset, ends[key].offset, max(0, ends[key].offset - offset.offset))
            for key, offset in sorted(committed.items())
        ],
    )
    if described["members"]:
        table(
            ("member", "client", "host"),
            [(member["member_id"], member["client_id"], member["client_host"]) for member in described["members"]],
        )


@app.command()
def reset(
    group: Group,
    to: Annotated[str, typer.Option(help="earliest or latest")] = "earliest",
    bootstrap: Bootstrap = None,
) -> None:
    """Move the committed offsets of a group without members."""
    from kafka.admin import OffsetSpec

    targets = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}
    if to not in targets:
        raise typer.BadParameter(f"--to {to}: expected earliest or latest")
    with client("KafkaAdminClient", bootstrap) as admin:
        committed = admin.list_group_offsets(group)[group]
        admin.reset_group_offsets(group, dict.fromkeys(committed, targets[to]))
    typer.echo(f"{group}: {len(committed)} partitions are at {to}")


@app.command()
def delete(group: Group, bootstrap: Bootstrap = None) -> None:
    """Delete a group without members, and its offsets."""
    with client("KafkaAdminClient", bootstrap) as admin:
        error = admin.delete_groups([group])[group]
    if error not in {None, "OK"}:
        typer.echo(f"{group}: {error}", err=True)
        raise typer.Exit(1)
    typer.echo(f"deleted {group}")

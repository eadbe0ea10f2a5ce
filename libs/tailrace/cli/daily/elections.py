"""`tailrace elect-leaders`: what kafka-leader-election does."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tailrace.cli.daily.connection import Bootstrap, Json
from tailrace.cli.daily.nodes import RefusedError, nodes


def elect_leaders(
    topics: Annotated[list[str] | None, typer.Option("--topic", "-t", help="may be repeated; default: all")] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="one partition of one --topic")] = None,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="any live replica, where nobody leads: RECORDS MAY BE LOST")
    ] = False,
    as_data: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Give partitions back to their preferred leaders, the first of their replicas."""
    if partition is not None and len(topics or ()) != 1:
        raise typer.BadParameter("--partition needs exactly one --topic")
    with nodes(bootstrap) as cluster:
        wanted = None
        if topics:
            wanted = [key for key in cluster.partitions(topics) if partition in {None, key[1]}]
            if not wanted:
                raise RefusedError(f"{topics[0]} has no partition {partition}")
        elected = cluster.elect(wanted, unclean=unclean)
        leaders = cluster.partitions(sorted({name for name, _ in elected})) if elected else {}
    if as_data:
        rows = [
            {"topic": name, "partition": index, "leader": leaders[name, index].leader_id, "error": why}
            for (name, index), why in sorted(elected.items())
        ]
        typer.echo(json.dumps(rows))
    for (name, index), why in sorted(elected.items()) if not as_data else ():
        typer.echo(f"{name}-{index}: {why or f'led by broker {leaders[name, index].leader_id}'}")
    if not elected and not as_data:
        typer.echo("No election was needed.")
    if any(elected.values()):
        raise typer.Exit(1)

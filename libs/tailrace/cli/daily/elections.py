"""`tailrace elect-leaders`: what kafka-leader-election does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, OnePartition, SomeTopics, one_topic, say
from tailrace.cli.daily.nodes import Nodes, nodes
from tailrace.cli.daily.output import show
from tailrace.cli.daily.refusals import RefusedError
from tailrace.metadata.moves import Partition
from tailrace.metadata.records import NO_LEADER

if TYPE_CHECKING:
    from tailrace.cli.daily.nodes import PartitionRow

_LOOK_MS = 50
_LOOKS_MAX = 40
_COLUMNS: Final = {"topic_name": "topic", "partition_id": "partition", "leader_id": "leader", "error": "error"}


def elect_leaders(
    topics: SomeTopics = None,
    partition: OnePartition = None,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="any live replica, where nobody leads: RECORDS MAY BE LOST")
    ] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Give partitions back to their preferred leaders, the first of their replicas."""
    one_topic(topics, partition)
    with nodes(bootstrap) as cluster:
        wanted = None
        if topics:
            wanted = [key for key in cluster.partitions(topics) if partition in {None, key[1]}]
            if not wanted:
                raise RefusedError(f"{topics[0]} has no partition {partition}")
        elected = cluster.elect(wanted, unclean=unclean)
        leaders = _leaders(cluster, elected, unclean=unclean)
    rows = [
        {"topic_name": name, "partition_id": index, "leader_id": leaders[name, index], "error": why}
        for (name, index), why in sorted(elected.items())
    ]
    show(rows, _COLUMNS, text=lambda: _print(elected, leaders))
    if any(elected.values()):
        raise typer.Exit(1)


def _print(elected: dict[Partition, str | None], leaders: dict[Partition, int]) -> None:
    for (name, index), why in sorted(elected.items()):
        say(f"{name}-{index}: {why or f'led by broker {leaders[name, index]}'}")
    if not elected:
        say("No election was needed.")


def _leaders(cluster: Nodes, elected: dict[Partition, str | None], *, unclean: bool) -> dict[Partition, int]:
    """Who leads now; the node that is asked may hear of an election a moment after the controller has answered."""
    topics = sorted({name for name, _ in elected})
    rows = cluster.partitions(topics) if topics else {}
    for _ in range(_LOOKS_MAX):
        if all(why or _is_led(rows[key], unclean) for key, why in elected.items() if key in rows):
            break
        cluster.pause(_LOOK_MS)
        rows = cluster.partitions(topics)
    return {key: rows[key].leader_id if key in rows else NO_LEADER for key in elected}


def _is_led(row: PartitionRow, unclean: bool) -> bool:
    return bool(row.leader_id >= 0 if unclean else row.leader_id == row.replica_nodes[0])

"""`tailrace topic producers`: who wrote to a topic's partitions, and whose transaction hangs (KIP-664)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tailrace.cli.daily.connection import Bootstrap, Json, Topic, local_time, say, table
from tailrace.cli.daily.nodes import Nodes, nodes
from tailrace.cli.daily.refusals import RefusedError, sentence
from tailrace.metadata.moves import Partition
from tailrace.wire.hot.producers import DescribedProducer, most_telling_first

_HEAD = ("partition", "producer", "epoch", "last sequence", "last timestamp", "coordinator epoch", "transaction since")


def producers(
    name: Topic,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="this one alone")] = None,
    broker: Annotated[int | None, typer.Option("--broker", help="what this broker's replicas remember")] = None,
    as_data: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Idempotent and transactional producers that the leaders remember: open transactions first, then the latest."""
    with nodes(bootstrap) as cluster:
        asked = _asked(cluster, name, partition, broker)
        found = cluster.producers(asked)
    rows = [
        {"partition": index, **{field: getattr(one, field) for field in DescribedProducer._fields}}
        for (_, index), part in sorted(found.items())
        for one in sorted(part.active_producers, key=most_telling_first)
    ]
    if as_data:
        say(json.dumps(rows))
    else:
        table(_HEAD, [tuple(_cell(*pair) for pair in row.items()) for row in rows])
    _refuse(asked, found)


def _asked(cluster: Nodes, name: str, partition: int | None, broker: int | None) -> dict[Partition, int]:
    """Whom to ask for each partition: its leader, or the broker if it has a replica."""
    parts = {key: part for key, part in cluster.partitions([name]).items() if partition in (None, key[1])}
    if not parts:
        raise RefusedError(f"{name}-{partition}: no such partition")
    if broker is None:
        return {key: part.leader_id for key, part in parts.items()}
    asked = {key: broker for key, part in parts.items() if broker in part.replica_nodes}
    if not asked:
        raise RefusedError(f"broker {broker} has no replica of it")
    return asked


def _refuse(asked: Mapping[Partition, int], found: Mapping[Partition, Any]) -> None:
    """Says which partitions were not answered; status 1 if there are any."""
    refused = False
    for key, node in sorted(asked.items()):
        why: str | None = "nobody leads it" if node < 0 else f"broker {node} is not live"
        if (part := found.get(key)) is not None:
            why = sentence(part.error_code, part.error_message)
        if why is not None:
            say(f"{key[0]}-{key[1]}: {why}", err=True)
            refused = True
    if refused:
        raise typer.Exit(1)


def _cell(field: str, value: int) -> object:
    if value < 0:
        return "-"
    return local_time(value) if field == "last_timestamp" else value

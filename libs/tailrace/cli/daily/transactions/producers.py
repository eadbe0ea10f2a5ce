"""`tailrace topic producers`: who wrote to a topic's partitions, and whose transaction hangs (KIP-664)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, Topic, local_time, say
from tailrace.cli.daily.nodes import Nodes, nodes
from tailrace.cli.daily.output import show
from tailrace.cli.daily.refusals import RefusedError, sentence
from tailrace.metadata.moves import Partition
from tailrace.wire.hot.producers import DescribedProducer, most_telling_first

_COLUMNS: Final = {
    "partition_id": "partition",
    "producer_id": "producer",
    "producer_epoch": "epoch",
    "last_sequence": "last sequence",
    "last_timestamp_ms": "last timestamp",
    "coordinator_epoch": "coordinator epoch",
    "current_txn_start_offset": "transaction since",
}


def producers(
    name: Topic,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="this one alone")] = None,
    broker: Annotated[int | None, typer.Option("--broker", help="what this broker's replicas remember")] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Idempotent and transactional producers that the leaders remember: open transactions first, then the latest."""
    with nodes(bootstrap) as cluster:
        asked = _asked(cluster, name, partition, broker)
        found = cluster.producers(asked)
    rows = [
        {"topic_name": name, "partition_id": index, **_fields(one)}
        for (_, index), part in sorted(found.items())
        for one in sorted(part.active_producers, key=most_telling_first)
    ]
    show(rows, _COLUMNS, cells={"last_timestamp_ms": local_time})
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


def _fields(one: DescribedProducer) -> dict[str, int | None]:
    """In the REST API's names; None where there is no sequence, no coordinator or no open transaction."""
    return {
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "last_sequence": _known(one.last_sequence),
        "last_timestamp_ms": one.last_timestamp,
        "coordinator_epoch": _known(one.coordinator_epoch),
        "current_txn_start_offset": _known(one.current_txn_start_offset),
    }


def _known(number: int) -> int | None:
    return None if number < 0 else number

"""Transactions that hang: open on a partition, and in no coordinator's books (Kafka's TransactionsCommand, KIP-664)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tailrace.cli.daily.nodes import Nodes
from tailrace.cli.daily.refusals import RefusedError, sentence
from tailrace.errors import ErrorCode
from tailrace.metadata.moves import Partition
from tailrace.net.address import Address
from tailrace.wire import messages as m

_KNOWN_BY_ITS_COORDINATOR: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_GONE: Final = frozenset({ErrorCode.TRANSACTIONAL_ID_NOT_FOUND})
_IDS_AT_ONCE: Final = 500
Hanging = tuple[Partition, Any]


def places(cluster: Nodes, topics: Sequence[str], partition: int | None, broker: int | None) -> Mapping[Partition, int]:
    """Whom to ask for each partition: its leader, or the broker if it has a replica."""
    parts = {key: row for key, row in cluster.partitions(topics).items() if partition in (None, key[1])}
    if not parts and partition is not None:
        raise RefusedError(f"{topics[0]} has no partition {partition}")
    if broker is None:
        return {key: row.leader_id for key, row in parts.items() if row.leader_id >= 0}
    return {key: broker for key, row in parts.items() if broker in row.replica_nodes}


def producers(cluster: Nodes, asked: Mapping[Partition, int]) -> dict[Partition, list[Any]]:
    """The producers that each replica remembers; refused where one does not answer."""
    found = cluster.producers(asked)
    for (name, index), node in sorted(asked.items()):
        row = found.get((name, index))
        why = f"broker {node} is not live" if row is None else sentence(row.error_code, row.error_message)
        if why is not None:
            raise RefusedError(f"{name}-{index}: {why}")
    return {key: found[key].active_producers for key in asked}


def find(cluster: Nodes, asked: Mapping[Partition, int], before_ms: int) -> list[Hanging]:
    """The open transactions whose last record is older, and which their coordinator does not know, or not there."""
    late = [
        (partition, one)
        for partition, remembered in sorted(producers(cluster, asked).items())
        for one in remembered
        if one.current_txn_start_offset >= 0 and one.last_timestamp < before_ms
    ]
    if not late:
        return []
    known = set(_known(cluster, sorted({one.producer_id for _, one in late})))
    return [(partition, one) for partition, one in late if (one.producer_id, partition) not in known]


def _known(cluster: Nodes, producer_ids: list[int]) -> Iterator[tuple[int, Partition]]:
    """The partitions that coordinators have in open transactions of these producers."""
    for first in range(0, len(producer_ids), _IDS_AT_ONCE):
        filters = producer_ids[first : first + _IDS_AT_ONCE]
        request = m.ListTransactionsRequest(state_filters=[], producer_id_filters=filters)
        for _, at, answer in cluster.ask_each(request, 0):
            names = [one.transactional_id for one in answer.transaction_states]
            for start in range(0, len(names), _IDS_AT_ONCE):
                yield from _open(cluster, names[start : start + _IDS_AT_ONCE], at)


def _open(cluster: Nodes, transactional_ids: list[str], at: Address) -> Iterator[tuple[int, Partition]]:
    request = m.DescribeTransactionsRequest(transactional_ids=transactional_ids)
    for row in cluster.ask(request, 0, at, handled=_GONE).transaction_states:
        if row.transaction_state in _KNOWN_BY_ITS_COORDINATOR:
            for topic in row.topics:
                yield from ((row.producer_id, (topic.topic, index)) for index in topic.partitions)

"""Transactions that hang: open on a partition, and in no coordinator's books (Kafka's TransactionsCommand, KIP-664)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tailrace.cli.daily.nodes import Nodes
from tailrace.cli.daily.refusals import RefusedError, sentence
from tailrace.coordination.transaction_records import Status
from tailrace.errors import ErrorCode
from tailrace.metadata.moves import Partition
from tailrace.net.address import Address
from tailrace.wire import messages as m

OPEN_STATES: Final = (Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT, Status.PREPARE_EPOCH_FENCE)
_GONE: Final = frozenset({ErrorCode.TRANSACTIONAL_ID_NOT_FOUND})
_IDS_AT_ONCE: Final = 500

if TYPE_CHECKING:
    ProducerRow = m.DescribeProducersResponse.TopicResponse.PartitionResponse.ProducerState
    Hanging = tuple[Partition, ProducerRow]


def places(
    cluster: Nodes, topics: Sequence[str], partition: int | None, broker: int | None
) -> tuple[dict[Partition, int], list[Partition]]:
    """Whom to ask for each partition: its leader, or the broker if it has a replica; then those without a leader."""
    parts = {key: row for key, row in cluster.partitions(topics).items() if partition in (None, key[1])}
    if not parts and partition is not None:
        raise RefusedError(f"{topics[0]} has no partition {partition}")
    if broker is not None:
        return {key: broker for key, row in parts.items() if broker in row.replica_nodes}, []
    led = {key: row.leader_id for key, row in parts.items() if row.leader_id >= 0}
    return led, sorted(parts.keys() - led.keys())


def producers(cluster: Nodes, asked: Mapping[Partition, int]) -> dict[Partition, list[ProducerRow]]:
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
    known = coordinated(cluster, sorted({one.producer_id for _, one in late}))
    return [(partition, one) for partition, one in late if (one.producer_id, partition) not in known]


def coordinated(cluster: Nodes, producer_ids: Sequence[int]) -> dict[tuple[int, Partition], str]:
    """By producer and partition the transactional id: what coordinators have in these producers' open transactions."""
    found: dict[tuple[int, Partition], str] = {}
    for first in range(0, len(producer_ids), _IDS_AT_ONCE):
        filters = list(producer_ids[first : first + _IDS_AT_ONCE])
        request = m.ListTransactionsRequest(state_filters=[], producer_id_filters=filters)
        for _, at, answer in cluster.ask_each(request, 0):
            names = [one.transactional_id for one in answer.transaction_states]
            for start in range(0, len(names), _IDS_AT_ONCE):
                found.update(_open(cluster, names[start : start + _IDS_AT_ONCE], at))
    return found


def _open(cluster: Nodes, transactional_ids: list[str], at: Address) -> Iterator[tuple[tuple[int, Partition], str]]:
    request = m.DescribeTransactionsRequest(transactional_ids=transactional_ids)
    for row in cluster.ask(request, 0, at, handled=_GONE).transaction_states:
        if row.transaction_state in OPEN_STATES:
            for topic in row.topics:
                for index in topic.partitions:
                    yield (row.producer_id, (topic.topic, index)), row.transactional_id

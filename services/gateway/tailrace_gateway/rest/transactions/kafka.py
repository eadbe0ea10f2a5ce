"""Transactions of all coordinators, or of one id: ListTransactions v1 and DescribeTransactions v0 (KIP-664).

And those that are open in partitions, as the partitions' leaders know them: DescribeOpenTransactions v0. One that hangs
is aborted by WriteTxnMarkers v1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from heapq import nsmallest
from http import HTTPStatus
from operator import attrgetter
from typing import NamedTuple

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.kafka.topics import TRANSACTION_STATE_TOPIC
from tailrace.wire.messages import (
    DescribeOpenTransactionsRequest,
    DescribeOpenTransactionsResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
)
from tailrace_gateway.rest.backend import SPARE_TIMEOUT_MS, AdminBackend
from tailrace_gateway.rest.errors import RestError, check, not_found, plain

_MARKERS_VERSION = 1
_ABORT = False
# The gateway's event loop also relays data: of very many ids `tailrace transaction list` shows all.
TRANSACTIONS_MAX = 1_000
_Open = DescribeOpenTransactionsResponse.OpenTransaction


async def listed(backend: AdminBackend) -> list[ListTransactionsResponse.TransactionState]:
    """The rows of ListTransactions by id, not more than the first TRANSACTIONS_MAX."""
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    found: list[ListTransactionsResponse.TransactionState] = []
    for answer in await backend.ask_coordinators(request, 1, topic=TRANSACTION_STATE_TOPIC):
        check(answer.error_code)
        found += answer.transaction_states
    return nsmallest(TRANSACTIONS_MAX, found, key=attrgetter("transactional_id"))


async def described(backend: AdminBackend, transactional_id: str) -> DescribeTransactionsResponse.TransactionState:
    """The row of DescribeTransactions; 404 for an id that nobody knows."""
    unknown = not_found(f"Transactional id {transactional_id} cannot be found.")
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    try:
        answer = await backend.ask_owner(TRANSACTION_STATE_TOPIC, transactional_id, request)
    except ApiError as refused:
        # The topic is made with the first of them; before that nobody coordinates and there is none.
        if refused.code == ErrorCode.COORDINATOR_NOT_AVAILABLE and not backend.has_topic(TRANSACTION_STATE_TOPIC):
            raise unknown from None
        raise
    row: DescribeTransactionsResponse.TransactionState
    (row,) = answer.transaction_states
    if row.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise unknown
    check(row.error_code)
    return row


class OpenInPartitions(NamedTuple):
    """What is open in partitions, and the live brokers that did not tell what is open in theirs.

    Each row of DescribeOpenTransactions has its transactional id, or None where no coordinator told it.
    """

    rows: list[tuple[_Open, str | None]]
    silent: list[int]


async def opened(backend: AdminBackend) -> OpenInPartitions:
    """The open transactions of all live brokers, the worst first, not more than TRANSACTIONS_MAX."""
    nodes = [node for node, broker in sorted(backend.image().brokers.items()) if not broker.fenced]
    answers = await asyncio.gather(*(_opened_at(backend, node) for node in nodes))
    rows = nsmallest(TRANSACTIONS_MAX, (row for answer in answers for row in answer or ()), key=_urgency)
    names = await _names(backend, {row.producer_id for row in rows}) if rows else {}
    silent = [node for node, answer in zip(nodes, answers, strict=True) if answer is None]
    return OpenInPartitions([(row, names.get(row.producer_id)) for row in rows], silent)


def _urgency(row: _Open) -> tuple[bool, bool, int, str, int]:
    return (not row.is_hanging, not row.is_late, row.last_timestamp, row.topic_name, row.partition_index)


async def _opened_at(backend: AdminBackend, node: int) -> list[_Open] | None:
    """None: the broker did not tell."""
    request = DescribeOpenTransactionsRequest(transactions_max=TRANSACTIONS_MAX)
    try:
        answer = await backend.ask_broker(node, request, timeout_ms=SPARE_TIMEOUT_MS)
    except (ApiError, OSError):
        return None
    return None if answer.error_code else list(answer.transactions)


async def _names(backend: AdminBackend, producer_ids: Iterable[int]) -> dict[int, str]:
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=sorted(producer_ids))
    try:
        answers = await backend.ask_coordinators(request, 1, topic=TRANSACTION_STATE_TOPIC)
    except (ApiError, OSError):
        return {}
    return {row.producer_id: row.transactional_id for answer in answers for row in answer.transaction_states}


async def abort(backend: AdminBackend, partition: TopicPartition, producer_id: int, start_offset: int) -> None:
    """Aborts a transaction in one partition, only while it hangs: a coordinator that has it open would be contradicted.

    404 where no transaction of the producer is open from that offset on, 409 where it does not hang.
    """
    topic, index = partition
    leader = backend.leader(topic, index)
    if leader < 0:
        raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{index} has no leader.")
    answer = await backend.ask_broker(leader, DescribeOpenTransactionsRequest(transactions_max=TRANSACTIONS_MAX))
    check(answer.error_code)
    wanted = (topic, index, producer_id, start_offset)
    rows = (
        (one.topic_name, one.partition_index, one.producer_id, one.start_offset, one) for one in answer.transactions
    )
    found = next((row[-1] for row in rows if row[:-1] == wanted), None)
    if found is None:
        raise not_found(f"{topic}-{index} has no open transaction of producer {producer_id} from {start_offset} on.")
    if not found.is_hanging:
        raise _not_hanging(partition, producer_id)
    described = await backend.producers(leader, topic, index)
    check(described.error_code, described.error_message)
    epochs = (one.coordinator_epoch for one in described.producers() if one.producer_id == producer_id)
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    asked = marker(
        producer_id=producer_id,
        producer_epoch=found.producer_epoch,
        transaction_result=_ABORT,
        topics=[marker.WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
        coordinator_epoch=max(0, next(epochs, 0)),
    )
    written = await backend.ask_broker(leader, WriteTxnMarkersRequest(markers=[asked]), _MARKERS_VERSION)
    for result in written.markers:
        for row in (row for topic_rows in result.topics for row in topic_rows.partitions):
            if row.error_code == ErrorCode.INVALID_TXN_STATE:  # what the broker has listed may be a minute old
                raise _not_hanging(partition, producer_id)
            check(row.error_code)


def _not_hanging(partition: TopicPartition, producer_id: int) -> RestError:
    topic, index = partition
    return plain(HTTPStatus.CONFLICT, f"The transaction of producer {producer_id} in {topic}-{index} does not hang.")

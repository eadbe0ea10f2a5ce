"""ListOffsets v1-11. v4: leader epochs. v7: max timestamp (KIP-734). v8: earliest local (KIP-405). v9: latest tiered
(KIP-1005). v11: earliest pending upload (KIP-1023). Without tiered storage local is all there is and tiered nothing.

At read_committed the log ends at the last stable offset. A consumer's questions for the ends of its partitions are
answered at once, ahead of the ordinary handler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.net.dispatch import ORDINARY
from tailrace.wire.list_offsets import Found, Wanted, decode_list_offsets, encode_list_offsets_answer
from tailrace.wire.messages import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from tailrace_broker.broker import Broker
    from tailrace_broker.partition import Partition

_READ_COMMITTED = 1
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_Topic = ListOffsetsResponse.ListOffsetsTopicResponse
_Row = _Topic.ListOffsetsPartitionResponse


class EndsPath:
    """ListOffsets that asks for nothing but ends of logs, on one broker's hot path."""

    def __init__(self, broker: Broker, before: Callable[[], None]) -> None:
        """`before` makes appends of the same read count, which came first."""
        self._broker = broker
        self._before = before

    def handle(self, connection: Any, version: int, correlation_id: int, body: memoryview) -> Any:
        """The answer's buffers, or ORDINARY for what has to be looked up in a log, or to be refused."""
        decoded = decode_list_offsets(version, body)
        if decoded is None:
            return ORDINARY
        committed, asked = decoded[0] == _READ_COMMITTED, decoded[1]
        if any(want.timestamp not in (LATEST, EARLIEST) for _, rows in asked for want in rows):
            return ORDINARY
        self._before()
        topics = [
            (name, [_answer(self._broker, name, want, committed, version) for want in rows]) for name, rows in asked
        ]
        return [encode_list_offsets_answer(version, correlation_id, topics)]


async def handle(request: ListOffsetsRequest, context: Context, broker: Broker) -> ListOffsetsResponse:
    """One row per asked partition; errors are per partition."""
    topics, version, committed = [], context.api_version, request.isolation_level == _READ_COMMITTED
    for asked in request.topics:
        name = asked.name.encode()
        found = (
            _answer(
                broker,
                name,
                Wanted(row.partition_index, row.current_leader_epoch, row.timestamp),
                committed,
                version,
            )
            for row in asked.partitions
        )
        rows = [
            _Row(partition_index=index, error_code=code, timestamp=at_ms, offset=offset, leader_epoch=epoch)
            for index, code, at_ms, offset, epoch in found
        ]
        topics.append(_Topic(name=asked.name, partitions=rows))
    return ListOffsetsResponse(topics=topics)


def _answer(broker: Broker, topic: bytes, wanted: Wanted, committed: bool, version: int) -> Found:
    index, current_leader_epoch, timestamp = wanted
    code: int = ErrorCode.KAFKA_STORAGE_ERROR
    try:
        partition, refused = broker.leading(topic, index, by_id=False)
        if partition is None:
            return Found(index, int(refused), -1, -1, -1)
        partition.check_epoch(current_leader_epoch)
        return Found(index, 0, *_find(partition, timestamp, committed, version))
    except ApiError as refusal:
        code = refusal.code
    except OSError:
        pass
    return Found(index, int(code), -1, -1, -1)


def _find(partition: Partition, timestamp: int, committed: bool, version: int) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch), each -1 where there is none. Raises ApiError, OSError.

    committed: below the last stable offset, as who reads at read_committed sees it.
    """
    if timestamp < 0 and version < _SINCE.get(timestamp, 0):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    log = partition.log
    if timestamp == LATEST:
        _check_settled(partition, version)
        return -1, partition.visible_end(committed), partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.epoch_at(log.log_start_offset)
    if timestamp in (EARLIEST_PENDING_UPLOAD, LATEST_TIERED):
        return -1, -1, -1
    if timestamp == MAX_TIMESTAMP:
        hit = log.offset_of_max_timestamp(partition.visible_end(committed))
    else:
        hit = log.offset_for_timestamp(timestamp, partition.visible_end(committed))
    if hit is None:
        _check_settled(partition, version)
        return -1, -1, -1
    return hit.timestamp, hit.offset, hit.leader_epoch


def _check_settled(partition: Partition, version: int) -> None:
    """KIP-207: a new leader does not know yet how much of its log is committed, and end offsets never go back."""
    if not partition.settled:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE)

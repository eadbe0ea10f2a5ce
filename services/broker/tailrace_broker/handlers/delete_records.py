"""DeleteRecords v0-2 (KIP-107): everything below an offset becomes unreadable; -1 means the high watermark."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import DeleteRecordsRequest, DeleteRecordsResponse
from tailrace_broker.handlers.rows import partition_rows
from tailrace_broker.waiting import offset_wait

if TYPE_CHECKING:
    from tailrace.clock import Clock
    from tailrace.log.directory.log_dir import LogDir
    from tailrace_broker.directories.storage import Storage
    from tailrace_broker.partitions.partition import Partition
    from tailrace_broker.partitions.topics import Topics
    from tailrace_broker.partitions.wakeups import WakeUps

_Topic = DeleteRecordsResponse.DeleteRecordsTopicResult
_Row = _Topic.DeleteRecordsPartitionResult
_Asked = DeleteRecordsRequest.DeleteRecordsTopic.DeleteRecordsPartition


async def handle(
    request: DeleteRecordsRequest, context: Context, topics: Topics, storage: Storage, wakeups: WakeUps, clock: Clock
) -> DeleteRecordsResponse:
    """Answers the new log start offset of each partition."""
    until_ms = clock.monotonic_ms() + request.timeout_ms
    found: dict[str, list[_Row | tuple[Partition, int]]] = {topic.name: [] for topic in request.topics}
    begun: dict[LogDir, Callable[[], None]] = {}  # checkpoints
    async for topic, row in partition_rows(request.topics):
        found[topic.name].append(_begin(topics, storage, wakeups, topic.name, row, begun))
    # On the disk before it is acknowledged: a crash must not bring back what was deleted.
    await wakeups.flusher.log_starts(begun)

    async def answer(begun: _Row | tuple[Partition, int]) -> _Row:
        if isinstance(begun, _Row):
            return begun
        return await _wait(topics, storage, wakeups, *begun, max(0.0, until_ms - clock.monotonic_ms()))

    answered = [_Topic(name=name, partitions=[await answer(one) for one in rows]) for name, rows in found.items()]
    return DeleteRecordsResponse(topics=answered)


def _begin(
    topics: Topics, storage: Storage, wakeups: WakeUps, topic: str, row: _Asked, begun: dict[LogDir, Callable[[], None]]
) -> _Row | tuple[Partition, int]:
    """The refusal, or the (partition, offset) that the disk and its other replicas have to give up first."""
    index, offset = row.partition_index, row.offset
    try:
        partition = topics.led(topic, index)
        if partition.internal:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        log = partition.log
        if not _deletable(log.config.cleanup_policy):
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        if offset == -1:
            offset = partition.high_watermark
        if offset < 0 or offset > partition.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        log.advance_log_start_offset(offset)
        if (log_dir := storage.place_of(topic, index)) is not None:
            begun[log_dir] = log_dir.begin_log_start_checkpoint((topic, index), log)
        topics.node.changed.add(partition)
        wakeups.appended(partition)
        return partition, offset
    except ApiError as refused:
        return _refused(index, refused.code)
    except OSError:
        return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR)


async def _wait(
    topics: Topics, storage: Storage, wakeups: WakeUps, partition: Partition, offset: int, timeout_ms: float
) -> _Row:
    """The answer once the other replicas have given the records up; what others wait for goes on meanwhile."""
    index = partition.index
    try:
        topics.led(partition.topic, index)
        log_dir = storage.place_of(partition.topic, index)
        if log_dir is not None and log_dir.failure is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        if partition.low_watermark < offset:
            await offset_wait.reached(partition.deletions, offset, wakeups.purgatory, timeout_ms)
        return _answered(index, partition.low_watermark)
    except ApiError as refused:
        return _refused(index, refused.code)
    except OSError:
        return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR)


def _answered(index: int, low_watermark: int) -> _Row:
    return _Row(partition_index=index, low_watermark=low_watermark, error_code=0)


def _refused(index: int, code: ErrorCode) -> _Row:
    return _Row(partition_index=index, low_watermark=-1, error_code=int(code))


def _deletable(policy: str | Container[str]) -> bool:
    """Not where a log is only compacted; one of no policy at all is neither cleaned nor protected, as in Kafka."""
    names = policy.split(",") if isinstance(policy, str) else policy
    return "delete" in names or "compact" not in names

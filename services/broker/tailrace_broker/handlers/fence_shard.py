"""FenceShard v0 (private): a shard's new owner puts its epoch into the log before it reads.

The answer leaves when the barrier is committed; whatever an older owner sends after it is refused. The epoch must be
one that a controller gave: a barrier is never taken back, and a made-up epoch would shut the true owners out forever.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Context
from tailrace.wire.messages import FenceShardRequest, FenceShardResponse
from tailrace_broker.fetch.lookups import LogChanged
from tailrace_broker.partitions.shard_barriers import BarrierSearch, barrier, refusal_of
from tailrace_broker.waiting import offset_wait

_NEWS_TIMEOUT_MS = 1000.0

if TYPE_CHECKING:
    from tailrace.clock import Clock
    from tailrace.net.metadata.follower import MetadataFollower
    from tailrace_broker.dynamic_config import DynamicBrokerConfig
    from tailrace_broker.fetch.lookups import Lookups
    from tailrace_broker.partitions.partition import Partition
    from tailrace_broker.partitions.topics import Topics
    from tailrace_broker.partitions.wakeups import WakeUps


async def handle(
    request: FenceShardRequest,
    context: Context,
    topics: Topics,
    wakeups: WakeUps,
    lookups: Lookups,
    follower: MetadataFollower,
    config: DynamicBrokerConfig,
    clock: Clock,
) -> FenceShardResponse:
    """Answers the barrier's offset. NOT_COORDINATOR to an older epoch, UNKNOWN_LEADER_EPOCH to one nobody gave."""
    await _known(request, follower)
    await _opened(request, topics, wakeups)
    partition = _led(request, context, topics)
    if follower.stale and partition.shard_epoch < 0:
        await _learn(partition, lookups)
        partition = _led(request, context, topics)
    if refusal_of(partition, request.shard_epoch, follower.image) == ErrorCode.UNKNOWN_LEADER_EPOCH:
        await _news(partition, request.shard_epoch, follower)
        partition = _led(request, context, topics)
    if code := refusal_of(partition, request.shard_epoch, follower.image):
        raise ApiError(ErrorCode(code))
    now_ms = clock.wall_ms()
    batch = memoryview(barrier(request.shard_epoch, request.coordinator_id, now_ms))
    (answer,) = partition.append([batch], now_ms, from_client=False)
    if answer.error_code:
        raise ApiError(ErrorCode(answer.error_code))
    wakeups.appended(partition)
    if partition.high_watermark <= answer.base_offset:
        timeout_ms = config.current.offsets_commit_timeout_ms
        await offset_wait.reached(partition.commits, answer.base_offset + 1, wakeups.purgatory, timeout_ms)
    return FenceShardResponse(
        error_code=0,
        barrier_offset=answer.base_offset,
        log_start_offset=partition.log.log_start_offset,
        leader_epoch=partition.leader_epoch,
    )


def _led(request: FenceShardRequest, context: Context, topics: Topics) -> Partition:
    if request.topic_id is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    partition, code = topics.leading(request.topic_id.bytes, request.partition, by_id=True)
    if partition is None:
        raise ApiError(ErrorCode(code))
    if not partition.internal or not context.connection.session.is_service:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    return partition


async def _known(request: FenceShardRequest, follower: MetadataFollower) -> None:
    """The owner of a new topic's shard often knows the topic before this broker does: gives the image a moment."""
    topic_id = request.topic_id
    if topic_id is not None and follower.applied.topic_by_id(topic_id) is None:
        with suppress(TimeoutError):
            await follower.wait_for(lambda image: image.topic_by_id(topic_id) is not None, _NEWS_TIMEOUT_MS)


async def _opened(request: FenceShardRequest, topics: Topics, wakeups: WakeUps) -> None:
    """The logs of a new topic are opened one after the other: waits for the turn of this one, which is the next."""
    topic_id = request.topic_id
    partition = None if topic_id is None else topics.to_be_opened(topic_id.bytes, request.partition)
    if partition is not None:
        await offset_wait.news(partition, wakeups.purgatory, _NEWS_TIMEOUT_MS)


async def _learn(partition: Partition, lookups: Lookups) -> None:
    """The partition's shard epoch becomes that of the log's last barrier, which a thread looks for. Raises ApiError.

    Who writes a barrier leads the partition and has its epoch from an image, or from such a search. So only a broker
    whose image is old, from its cache while no controller answers, has a barrier that its image does not know. An older
    owner that does not fence appends nothing meanwhile: the barrier is where it believes that the log ends.
    """
    leader_epoch = partition.leader_epoch
    try:
        shard_epoch = await lookups.find(BarrierSearch(partition.log))
    except LogChanged:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from None
    except OSError as failed:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failed)) from failed
    if partition.leader_epoch != leader_epoch:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    partition.shard_epoch = max(0, shard_epoch)


async def _news(partition: Partition, shard_epoch: int, follower: MetadataFollower) -> None:
    """The new owner often knows of its epoch before this broker does: gives the image a moment."""
    key = (partition.topic, partition.index)

    def given(image: MetadataImage) -> bool:
        shard = image.shards.get(key)
        return shard is not None and shard.shard_epoch >= shard_epoch

    with suppress(TimeoutError):
        await follower.wait_for(given, _NEWS_TIMEOUT_MS)

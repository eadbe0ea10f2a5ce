"""Fetch v4-18 of `__cluster_metadata` alone, from any controller: a long poll on the committed log (KIP-595).

An offset below the log's start is answered with the id of the snapshot to fetch (KIP-630), one beyond its end with
OFFSET_OUT_OF_RANGE: the follower has seen more than this controller's database holds, and must not truncate to it.
"""

from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.net.metadata_batches import TOPIC, TOPIC_ID
from tailrace.wire.messages import FetchRequest, FetchResponse
from tailrace_controller.controller import Controller
from tailrace_controller.effects import Effects
from tailrace_controller.role import ControllerRole

_Topic = FetchResponse.FetchableTopicResponse
_Partition = _Topic.PartitionData
MAX_WAIT_MS = 30_000


async def handle(request: FetchRequest, context: Context, role: ControllerRole) -> FetchResponse:
    controller = role.controller
    asked = _only_partition(request, context.api_version)
    if not controller.ready.is_set():
        await controller.run(lambda image: Effects(None))  # until the log is loaded and has its first record
    cluster_id = controller.committed.cluster_id
    if request.cluster_id and request.cluster_id != cluster_id:
        raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is cluster {cluster_id}, not {request.cluster_id}")
    if asked.fetch_offset == controller.followed.end_offset:
        await controller.wait_for(asked.fetch_offset, min(request.max_wait_ms, MAX_WAIT_MS))
    partition = answer(controller, asked, request.max_bytes)
    return FetchResponse(responses=[_Topic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])])


def answer(controller: Controller, asked: Any, max_bytes: int) -> Any:
    """Returns the partition's answer as the log stands now."""
    log = controller.followed
    leader = _Partition.LeaderIdAndEpoch(leader_id=controller.node_id, leader_epoch=controller.epoch)
    partition = _Partition(
        partition_index=0,
        error_code=0,
        high_watermark=log.end_offset,
        last_stable_offset=log.end_offset,
        log_start_offset=log.start_offset,
        current_leader=leader,
        aborted_transactions=None,
        records=b"",
    )
    offset, snapshot = asked.fetch_offset, log.snapshot
    diverges = offset > 0 and log.epoch_before(offset) not in (None, asked.last_fetched_epoch)
    if offset > log.end_offset or (diverges and offset >= log.start_offset):
        partition.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    elif offset < log.start_offset:
        assert snapshot is not None
        partition.snapshot_id = _Partition.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
    else:
        partition.records = log.read(offset, max_bytes)
    return partition


def _only_partition(request: FetchRequest, version: int) -> Any:
    topics = request.topics
    named = len(topics) == 1 and (topics[0].topic_id == TOPIC_ID if version >= 13 else topics[0].topic == TOPIC)
    if not named or len(topics[0].partitions) != 1 or topics[0].partitions[0].partition != 0:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"a controller serves {TOPIC}-0 only")
    return topics[0].partitions[0]

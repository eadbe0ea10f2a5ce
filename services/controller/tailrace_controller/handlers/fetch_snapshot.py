"""FetchSnapshot v0-1 of `__cluster_metadata` (KIP-630): the newest snapshot in chunks of at most max_bytes."""

from tailrace.errors import ErrorCode
from tailrace.kafka.topics import CLUSTER_METADATA_TOPIC
from tailrace.net.context import Context
from tailrace.wire.messages import FetchSnapshotRequest, FetchSnapshotResponse
from tailrace_controller.role import ControllerRole

_Topic = FetchSnapshotResponse.TopicSnapshot
_Partition = _Topic.PartitionSnapshot
CHUNK_BYTES_MAX = 1 << 20


async def handle(request: FetchSnapshotRequest, context: Context, role: ControllerRole) -> FetchSnapshotResponse:
    snapshot = role.controller.followed.snapshot
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            wanted = (asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
            answer = _Partition(index=asked.partition, error_code=0, unaligned_records=b"")
            answer.snapshot_id = _Partition.SnapshotId(end_offset=wanted[0], epoch=wanted[1])
            answer.current_leader = _Partition.LeaderIdAndEpoch(
                leader_id=role.controller.node_id, leader_epoch=role.controller.epoch
            )
            if topic.name != CLUSTER_METADATA_TOPIC or asked.partition != 0:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif snapshot is None or wanted != (snapshot.end_offset, snapshot.epoch):
                answer.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
            elif not 0 <= asked.position < len(snapshot.data):
                answer.error_code = ErrorCode.POSITION_OUT_OF_RANGE
            else:
                size = min(CHUNK_BYTES_MAX, max(1, request.max_bytes))
                answer.size, answer.position = len(snapshot.data), asked.position
                answer.unaligned_records = snapshot.data[asked.position : asked.position + size]
            partitions.append(answer)
        topics.append(_Topic(name=topic.name, partitions=partitions))
    return FetchSnapshotResponse(error_code=0, topics=topics)

"""Fetch v4-18 of `__cluster_metadata` alone, from any controller: a long poll on the committed log (KIP-595).

current_leader names the active controller and its epoch; where that is another one, node_endpoints says its address, so
an answer without node_endpoints comes from the active controller itself. An offset below the log's start is answered
with the id of the snapshot to fetch (KIP-630). A follower that is ahead, in offset or in controller epoch, must never
truncate to us: a standby that is behind waits and then answers "not yet", OFFSET_NOT_AVAILABLE or
UNKNOWN_LEADER_EPOCH; the active controller asks its database, which may be a restored one: NOT_CONTROLLER then.
"""

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import CLUSTER_METADATA_TOPIC
from tailrace.net.address import Address
from tailrace.net.context import Context
from tailrace.net.metadata.batches import TOPIC_ID
from tailrace.wire.messages import FetchRequest, FetchResponse
from tailrace_controller.controller import Controller
from tailrace_controller.election.acceptance import Seen
from tailrace_controller.metadata_log.log import MetadataLog
from tailrace_controller.role import ControllerRole

_Asked = FetchRequest.FetchTopic.FetchPartition
_Topic = FetchResponse.FetchableTopicResponse
_Partition = _Topic.PartitionData
MAX_WAIT_MS = 30_000


async def handle(request: FetchRequest, context: Context, role: ControllerRole) -> FetchResponse:
    controller = role.controller
    asked = _only_partition(request, context.api_version)
    if not controller.ready.is_set():
        await controller.until_ready()
    cluster_id = controller.committed.cluster_id
    if request.cluster_id and request.cluster_id != cluster_id:
        raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is cluster {cluster_id}, not {request.cluster_id}")
    log = controller.followed
    claimed = Seen(asked.fetch_offset - 1, max(asked.last_fetched_epoch, asked.current_leader_epoch))
    await controller.check(claimed)
    if diverges(log, asked):
        await controller.check(Seen(log.end_offset, claimed.epoch))
    elif asked.fetch_offset >= log.end_offset:
        await controller.wait_for(asked.fetch_offset, min(request.max_wait_ms, MAX_WAIT_MS))
    if controller.refusal:
        raise ApiError(ErrorCode.NOT_CONTROLLER, controller.refusal)
    partition = answer(controller, asked, request.max_bytes)
    topic = _Topic(topic=CLUSTER_METADATA_TOPIC, topic_id=TOPIC_ID, partitions=[partition])
    response = FetchResponse(responses=[topic])
    response.node_endpoints = [_endpoint(*controller.leader)] if not controller.holding else []
    return response


def answer(controller: Controller, asked: _Asked, max_bytes: int) -> _Partition:
    """Returns the partition's answer as the log stands now."""
    log = controller.followed
    leader_id, leader_epoch, _ = controller.leader
    partition = _Partition(
        partition_index=0,
        error_code=0,
        high_watermark=log.end_offset,
        last_stable_offset=log.end_offset,
        log_start_offset=log.start_offset,
        current_leader=_Partition.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
        aborted_transactions=None,
        records=b"",
    )
    offset, snapshot = asked.fetch_offset, log.snapshot
    if offset > log.end_offset:
        partition.error_code = ErrorCode.OFFSET_NOT_AVAILABLE
    elif asked.current_leader_epoch > leader_epoch:
        partition.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
    elif diverges(log, asked):
        partition.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    elif offset < log.start_offset:
        assert snapshot is not None
        partition.snapshot_id = _Partition.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
    else:
        partition.records = log.read(offset, max_bytes)
    return partition


def diverges(log: MetadataLog, asked: _Asked) -> bool:
    """Whether the follower's last record is another one than this log's at that offset."""
    offset = asked.fetch_offset
    if not max(log.start_offset, 1) <= offset <= log.end_offset:
        return False
    return log.epoch_before(offset) not in (None, asked.last_fetched_epoch)


def _endpoint(leader_id: int, _: int, address: str) -> FetchResponse.NodeEndpoint:
    """Where the active controller is, as endpoints in the image say it: a Unix socket's path has port 0."""
    at = Address.parse(address) if address else Address("", 0)
    return FetchResponse.NodeEndpoint(node_id=leader_id, host=at.host, port=max(at.port, 0), rack=None)


def _only_partition(request: FetchRequest, version: int) -> _Asked:
    topics = request.topics
    wanted = TOPIC_ID if version >= 13 else CLUSTER_METADATA_TOPIC
    named = len(topics) == 1 and (topics[0].topic_id if version >= 13 else topics[0].topic) == wanted
    if not named or len(topics[0].partitions) != 1 or topics[0].partitions[0].partition != 0:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"a controller serves {CLUSTER_METADATA_TOPIC}-0 only")
    return topics[0].partitions[0]

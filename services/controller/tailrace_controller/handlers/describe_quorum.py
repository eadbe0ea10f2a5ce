"""DescribeQuorum v0-2 (KIP-595): the active controller as leader, its standbys as voters, brokers as observers.

v1: when each was heard and had caught up (KIP-836). v2: where the controllers listen (KIP-853); a Unix socket is no
address for a client and is left out. A standby tells where it is itself, to the active controller that asks it; to
anyone else that is NOT_CONTROLLER. Only partition 0 of `__cluster_metadata` can be asked for, and nothing beside it.
"""

from tailrace.errors import ErrorCode
from tailrace.kafka.topics import CLUSTER_METADATA_TOPIC
from tailrace.net.address import Address
from tailrace.net.context import Context
from tailrace.wire.messages import DescribeQuorumRequest, DescribeQuorumResponse
from tailrace_controller.election.quorum import ReplicaState
from tailrace_controller.role import ControllerRole

_Topic = DescribeQuorumResponse.TopicData
_Partition = _Topic.PartitionData
_Node = DescribeQuorumResponse.Node
_NOT_HOSTED = "This server does not host this topic-partition."


async def handle(request: DescribeQuorumRequest, context: Context, role: ControllerRole) -> DescribeQuorumResponse:
    controller, quorum = role.controller, role.quorum
    if not _is_the_log(request):
        return DescribeQuorumResponse(error_message="", topics=[_not_hosted(topic) for topic in request.topics])
    if not controller.holding:
        answer = _answer(role, [(controller.node_id, ReplicaState(controller.followed.end_offset))], [])
        answer.error_code = ErrorCode.NOT_CONTROLLER
        return answer
    if not context.connection.session.is_service:  # a client's; another controller means this one alone
        await quorum.ask_standbys(controller.node_id, controller.followed.end_offset)
    now_ms = controller.clock.wall_ms()
    end_offset = controller.followed.end_offset
    voters = [(controller.node_id, ReplicaState(end_offset, now_ms, now_ms))]
    voters += [(node_id, standby.position) for node_id, standby in sorted(quorum.standbys.items())]
    brokers = controller.committed.brokers
    observers = [(broker_id, quorum.observers.get(broker_id, ReplicaState())) for broker_id in sorted(brokers)]
    answer = _answer(role, voters, observers)
    answer.nodes += [
        _Node(node_id=node_id, listeners=list(standby.listeners))
        for node_id, standby in sorted(quorum.standbys.items())
    ]
    return answer


def _is_the_log(request: DescribeQuorumRequest) -> bool:
    named = [(topic.topic_name, [row.partition_index for row in topic.partitions[:2]]) for topic in request.topics[:2]]
    return named == [(CLUSTER_METADATA_TOPIC, [0])]


def _not_hosted(topic: DescribeQuorumRequest.TopicData) -> _Topic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _Topic(
        topic_name=topic.topic_name,
        partitions=[
            _Partition(
                partition_index=row.partition_index,
                error_code=code,
                error_message=_NOT_HOSTED,
                current_voters=[],
                observers=[],
            )
            for row in topic.partitions
        ],
    )


def _answer(
    role: ControllerRole, voters: list[tuple[int, ReplicaState]], observers: list[tuple[int, ReplicaState]]
) -> DescribeQuorumResponse:
    controller = role.controller
    leader_id, leader_epoch, _ = controller.leader
    partition = _Partition(
        partition_index=0,
        error_message="",
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        high_watermark=controller.followed.end_offset,
        current_voters=[_replica(*voter) for voter in voters],
        observers=[_replica(*observer) for observer in observers],
    )
    return DescribeQuorumResponse(
        error_message="",
        topics=[_Topic(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
        nodes=[_Node(node_id=controller.node_id, listeners=_listeners(role.quorum.own))],
    )


def _replica(replica_id: int, at: ReplicaState) -> _Partition.ReplicaState:
    return _Partition.ReplicaState(
        replica_id=replica_id,
        log_end_offset=at.log_end_offset,
        last_fetch_timestamp=at.last_fetch_ms,
        last_caught_up_timestamp=at.caught_up_ms,
    )


def _listeners(address: Address) -> list[_Node.Listener]:
    return [] if address.is_unix else [_Node.Listener(name="CONTROLLER", host=address.host, port=address.port)]

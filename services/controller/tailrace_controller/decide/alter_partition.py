"""AlterPartition v2-3 (KIP-497, 841, 903): a leader proposes an ISR; each partition is taken or refused for itself.

Replicas are checked against the brokers' registrations, with their epochs from v3 on (KIP-903), so that a broker that
restarted meanwhile does not get into the ISR by what its former life had fetched. The change that completes a
reassignment may take the leadership from the very broker that asks: then it is answered NEW_LEADER_ELECTED, and
recorded all the same.
"""

from tailrace.config import Config
from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace.metadata.records import NO_LEADER_CHANGE, NO_UUID, PartitionChangeRecord
from tailrace.metadata.replay import changed
from tailrace.wire.messages import AlterPartitionRequest, AlterPartitionResponse
from tailrace_controller.decide import elections
from tailrace_controller.decide.controller_result import ControllerResult
from tailrace_controller.decide.partition_change import RECOVERED, RECOVERING, Wish

WITH_EPOCHS = 3  # the version from which on the ISR names broker epochs
_ANY_EPOCH = -1
_Topic = AlterPartitionResponse.TopicData
_Partition = _Topic.PartitionData
_Wanted = AlterPartitionRequest.TopicData.PartitionData


def alter(
    image: MetadataImage, request: AlterPartitionRequest, version: int, config: Config
) -> ControllerResult[AlterPartitionResponse]:
    """Records the ISRs that may be; STALE_BROKER_EPOCH refuses the whole request of an earlier life or a stranger."""
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        return ControllerResult(AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[]))
    rules = elections.Elections(image, config)
    records: list[PartitionChangeRecord] = []
    topics = []
    for asked in request.topics:
        topic = image.topic_by_id(asked.topic_id or NO_UUID)
        rows: list[_Partition] = []
        for wanted in asked.partitions:
            row, record = _alter_one(image, rules, topic, request.broker_id, wanted, version)
            rows.append(row)
            if record is not None:
                records.append(record)
        topics.append(_Topic(topic_id=asked.topic_id, partitions=rows))
    return ControllerResult(AlterPartitionResponse(error_code=0, topics=topics), tuple(records))


def _alter_one(
    image: MetadataImage,
    rules: elections.Elections,
    topic: TopicImage | None,
    broker_id: int,
    wanted: _Wanted,
    version: int,
) -> tuple[_Partition, PartitionChangeRecord | None]:
    index = wanted.partition_index
    if topic is None:
        return _refusal(index, ErrorCode.UNKNOWN_TOPIC_ID), None
    partition = image.partition(topic.name, index)
    if partition is None:
        return _refusal(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), None
    isr = _proposed(wanted, version)
    error = _error(image, partition, broker_id, wanted, isr)
    if error != ErrorCode.NONE:
        return _refusal(index, error), None
    members = tuple(member for member, _ in isr)
    wish = Wish(rules.election(topic.name), isr=members, leader_recovery_state=wanted.leader_recovery_state)
    record = rules.change(topic, index, partition, wish)
    if record is None:
        return _row(index, partition), None
    if record.leader not in (broker_id, NO_LEADER_CHANGE):
        return _refusal(index, ErrorCode.NEW_LEADER_ELECTED), record
    return _row(index, changed(partition, record)), record


def _proposed(wanted: _Wanted, version: int) -> list[tuple[int, int]]:
    """Returns the proposed ISR as (broker id, broker epoch)."""
    if version >= WITH_EPOCHS:
        return [(state.broker_id, state.broker_epoch) for state in wanted.new_isr_with_epochs]
    return [(member, _ANY_EPOCH) for member in wanted.new_isr]


def _error(
    image: MetadataImage, partition: PartitionImage, broker_id: int, wanted: _Wanted, isr: list[tuple[int, int]]
) -> ErrorCode:
    members = [member for member, _ in isr]
    state = wanted.leader_recovery_state
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # who asks knows more than we do: another controller is active
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not _is_isr(members, partition) or state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if state == RECOVERING and (len(members) > 1 or partition.leader_recovery_state == RECOVERED):
        return ErrorCode.INVALID_REQUEST
    if not all(_eligible(image, member, epoch) for member, epoch in isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_isr(members: list[int], partition: PartitionImage) -> bool:
    """Says whether these are replicas, each once, and the leader among them."""
    unique = set(members)
    return len(unique) == len(members) and unique <= set(partition.replicas) and partition.leader in unique


def _eligible(image: MetadataImage, broker_id: int, broker_epoch: int) -> bool:
    return elections.may_lead(image, broker_id) and broker_epoch in (_ANY_EPOCH, image.brokers[broker_id].broker_epoch)


def _refusal(index: int, error: ErrorCode) -> _Partition:
    return _Partition(
        partition_index=index, error_code=error, leader_id=0, leader_epoch=0, isr=[], leader_recovery_state=0,
        partition_epoch=0,
    )  # fmt: skip


def _row(index: int, partition: PartitionImage) -> _Partition:
    return _Partition(
        partition_index=index,
        error_code=ErrorCode.NONE,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )

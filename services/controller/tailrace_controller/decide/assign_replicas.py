"""AssignReplicasToDirs (KIP-858): in which log directory each replica of a broker lies."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from tailrace.config import Config
from tailrace.errors import ErrorCode
from tailrace.metadata.directories import MIGRATING, UNASSIGNED, directory_of, is_online
from tailrace.metadata.image import BrokerImage, MetadataImage
from tailrace.metadata.records import NO_LEADER, NO_UUID, PartitionChangeRecord
from tailrace.metadata.replay import planned
from tailrace.wire.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from tailrace_controller.decide import elections, partition_change
from tailrace_controller.decide.brokers import check_epoch
from tailrace_controller.decide.controller_result import ControllerResult
from tailrace_controller.decide.partition_change import Wish

_Dir = AssignReplicasToDirsResponse.DirectoryData
_Topic = _Dir.TopicData
_Row = _Topic.PartitionData


def assign(
    image: MetadataImage, request: AssignReplicasToDirsRequest, config: Config
) -> ControllerResult[AssignReplicasToDirsResponse]:
    """Notes where the replicas lie; each has its own error, STALE_BROKER_EPOCH refuses them all.

    One that lies on a directory that is offline loses its leadership; one that is online now may get one.
    """
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    records: list[PartitionChangeRecord] = []
    directories = []
    for asked in request.directories:
        directory_id = asked.id or UNASSIGNED
        topics = []
        for wanted in asked.topics:
            rows = []
            for row in wanted.partitions:
                code, record = _assign_one(image, broker, directory_id, wanted.topic_id or NO_UUID, row.partition_index)
                rows.append(_Row(partition_index=row.partition_index, error_code=code))
                if record is not None:
                    records.append(record)
            topics.append(_Topic(topic_id=wanted.topic_id, partitions=rows))
        directories.append(_Dir(id=asked.id, topics=topics))
    elected = _elect(planned(image, records), broker, records, config)
    return ControllerResult(AssignReplicasToDirsResponse(error_code=0, directories=directories), (*records, *elected))


def _assign_one(
    image: MetadataImage, broker: BrokerImage, directory_id: UUID, topic_id: UUID, index: int
) -> tuple[ErrorCode, PartitionChangeRecord | None]:
    topic = image.topic_by_id(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID, None
    partition = image.partition(topic.name, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    if broker.broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, None
    if directory_of(partition, broker.broker_id) == directory_id:
        return ErrorCode.NONE, None
    directories = list(partition.directories or (MIGRATING,) * len(partition.replicas))
    directories[partition.replicas.index(broker.broker_id)] = directory_id
    return ErrorCode.NONE, PartitionChangeRecord(index, topic_id, directories=tuple(directories))


def _elect(
    image: MetadataImage, broker: BrokerImage, assigned: list[PartitionChangeRecord], config: Config
) -> Iterator[PartitionChangeRecord]:
    """Leaders and ISRs after the replicas of one broker were assigned, in the image that has it."""
    rules = elections.Elections(image, config)
    for done in assigned:
        topic = image.topic_by_id(done.topic_id)
        assert topic is not None
        partition = topic.partitions[done.partition_id]
        directory_id = directory_of(partition, broker.broker_id)
        assert directory_id is not None
        wish = Wish(rules.election(topic.name))
        if not is_online(directory_id, broker.log_dirs):
            isr = partition_change.without(partition.isr, (broker.broker_id,))
            wish = replace(wish, isr=isr)
        elif partition.leader != NO_LEADER:
            continue
        record = rules.change(topic, done.partition_id, partition, wish)
        if record is not None:
            yield record

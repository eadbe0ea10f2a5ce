"""What an operator asks of the controller, by the real decisions: preferred elections, reassignments, their cancels."""

from __future__ import annotations

from typing import Any

from sim.replication.checker import TOPIC
from tailrace.config import Config
from tailrace.metadata.image import MetadataImage
from tailrace.wire.messages import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from tailrace_controller.decide import elect_leaders, reassignments
from tailrace_controller.decide.controller_result import ControllerResult


def elect(image: MetadataImage, index: int, config: Config) -> ControllerResult[Any]:
    """ElectLeaders: the preferred replica, if it may."""
    row = ElectLeadersRequest.TopicPartitions(topic=TOPIC, partitions=[index])
    request = ElectLeadersRequest(election_type=elect_leaders.PREFERRED, topic_partitions=[row], timeout_ms=0)
    return elect_leaders.elect(image, request, config)


def reassign(image: MetadataImage, index: int, replicas: list[int] | None, config: Config) -> ControllerResult[Any]:
    """AlterPartitionReassignments; None cancels."""
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    row = topic.ReassignablePartition(partition_index=index, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(timeout_ms=0, topics=[topic(name=TOPIC, partitions=[row])])
    return reassignments.alter(image, request, 0, config)

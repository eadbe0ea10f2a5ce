"""Preferred leaders, restored by and by: the first replica of each partition leads again once it is in sync."""

from tailrace.config import Config
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import PartitionChangeRecord
from tailrace_controller.decide.controller_result import ControllerResult
from tailrace_controller.decide.elections import Elections, partitions
from tailrace_controller.decide.partition_change import Election, Wish

ELECTIONS_AT_ONCE = 1000  # Kafka's MAX_ELECTIONS_PER_IMBALANCE


def restore(image: MetadataImage, config: Config, limit: int = ELECTIONS_AT_ONCE) -> ControllerResult[bool]:
    """Elects preferred leaders, not more than limit at once; the reply says whether there are more to elect."""
    elections = Elections(image, config)
    records: list[PartitionChangeRecord] = []
    for topic, index, partition in partitions(image):
        preferred = partition.replicas[0]
        if partition.leader == preferred or preferred not in elections.may_lead or preferred not in partition.isr:
            continue
        if len(records) == limit:
            return ControllerResult(True, tuple(records))
        record = elections.change(topic, index, partition, Wish(Election.PREFERRED))
        if record is not None:
            records.append(record)
    return ControllerResult(False, tuple(records))

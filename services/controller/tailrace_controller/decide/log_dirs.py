"""Log directories that fail (KIP-858): a heartbeat names them, and what lay there is led by others."""

from collections.abc import Collection, Iterator
from uuid import UUID

from tailrace.config import Config
from tailrace.metadata.directories import directory_of, is_online
from tailrace.metadata.image import BrokerImage, MetadataImage
from tailrace.metadata.records import BrokerRegistrationChangeRecord, MetadataRecord, PartitionChangeRecord
from tailrace_controller.decide import elections, partition_change
from tailrace_controller.decide.partition_change import Wish


def went_offline(
    image: MetadataImage, broker: BrokerImage, reported: Collection[UUID], config: Config
) -> tuple[MetadataRecord, ...]:
    """What a heartbeat's OfflineLogDirs change: the registration, and leaders and ISRs of what lies there.

    Nothing when none of them is news. A broker that has no directory left is going; it is not asked here.
    """
    news = set(reported) & set(broker.log_dirs)
    if not news:
        return ()
    online = tuple(one for one in broker.log_dirs if one not in news)
    change = BrokerRegistrationChangeRecord(broker.broker_id, broker.broker_epoch, log_dirs=online)
    return (change, *_without(image, broker.broker_id, news, config))


def misses_any(image: MetadataImage, broker_id: int, log_dirs: Collection[UUID]) -> bool:
    """Whether a replica of the broker lies in a directory that is not among these: it comes back without its records.

    So it is after an operator took a directory away, however cleanly the broker was stopped before.
    """
    found = (directory_of(partition, broker_id) for _, _, partition in elections.partitions(image))
    return any(one is not None and not is_online(one, log_dirs) for one in found)


def _without(
    image: MetadataImage, broker_id: int, offline: Collection[UUID], config: Config
) -> Iterator[PartitionChangeRecord]:
    rules = elections.Elections(image, config, removed=broker_id)
    for topic, index, partition in elections.partitions(image):
        if directory_of(partition, broker_id) in offline:
            isr = partition_change.without(partition.isr, (broker_id,))
            record = rules.change(topic, index, partition, Wish(rules.election(topic.name), isr=isr))
            if record is not None:
                yield record

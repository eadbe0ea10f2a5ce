"""Log directories that fail (KIP-858): a heartbeat names them, and what lay there is led by others."""

from collections.abc import Collection
from uuid import UUID

from tailrace.config import Config
from tailrace.metadata.directories import directory_of, is_online
from tailrace.metadata.image import BrokerImage, MetadataImage
from tailrace.metadata.records import BrokerRegistrationChangeRecord, MetadataRecord
from tailrace_controller.decide import elections


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
    return (change, *elections.on_directory_gone(image, broker.broker_id, news, config))


def misses_any(image: MetadataImage, broker_id: int, log_dirs: Collection[UUID]) -> bool:
    """Whether a replica of the broker lies in a directory that is not among these: it comes back without its records.

    So it is after an operator took a directory away, however cleanly the broker was stopped before.
    """
    for _, _, partition in elections.partitions(image):
        found = directory_of(partition, broker_id)
        if found is not None and not is_online(found, log_dirs):
            return True
    return False

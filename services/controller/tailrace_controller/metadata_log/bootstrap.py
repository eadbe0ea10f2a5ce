"""What a controller makes of a loaded log: the image and the followers' log; and how an empty log begins. Pure."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import TypeVar
from uuid import UUID

from tailrace.kafka.features import INITIAL, beyond
from tailrace.kafka.ids import format_uuid
from tailrace.metadata import codec
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import ClusterRecord, FeatureLevelRecord, MetadataRecord
from tailrace.metadata.replay import replay as replay_records
from tailrace.net.metadata.batches import MetadataBatch, Snapshot, decode_snapshot, encode_batch
from tailrace_controller.metadata_log.log import MetadataLog
from tailrace_controller.metadata_log.stored import StoredLog, StoredRecord, StoreError

T = TypeVar("T")


def first_records(cluster_uuid: UUID) -> tuple[MetadataRecord, ...]:
    """Returns the records an empty log begins with; the cluster id is written as Kafka writes its own."""
    cluster_id = format_uuid(cluster_uuid)
    return (ClusterRecord(cluster_id), *(FeatureLevelRecord(name, level) for name, level in INITIAL.items()))


def replay(loaded: StoredLog) -> tuple[MetadataImage, MetadataLog]:
    """Returns the image at the end of a whole loaded log, and the log as followers fetch it."""
    image = MetadataImage()
    snapshot = None
    if (stored := loaded.snapshot) is not None:
        snapshot = Snapshot(stored.end_offset, stored.epoch, stored.payload)
        image = _readable(partial(decode_snapshot, snapshot))
    batches = []
    for batch, records in _batches(loaded.records):
        batches.append(batch)
        if batch.last_offset > image.offset:
            image = replay_records(image, records, batch.last_offset, batch.epoch)
    assert image.offset + 1 == loaded.next_offset, "the log ends where its lease row says"
    return _understood(image), MetadataLog(snapshot, batches, loaded.next_offset)


def extend(image: MetadataImage, loaded: StoredLog) -> tuple[MetadataImage, list[MetadataBatch]]:
    """Returns the image after what was loaded, and its batches, which continue the followers' log."""
    batches = []
    for batch, records in _batches(loaded.records):
        batches.append(batch)
        image = replay_records(image, records, batch.last_offset, batch.epoch)
    assert image.offset + 1 == loaded.next_offset, "the log ends where its lease row says"
    return _understood(image), batches


def _understood(image: MetadataImage) -> MetadataImage:
    """The image, unless a newer version has finalized what this one does not know: then StoreError."""
    if why := beyond(image.features):
        raise StoreError(f"{why}. Install a version that does")
    return image


def _batches(records: Iterable[StoredRecord]) -> Iterator[tuple[MetadataBatch, list[MetadataRecord]]]:
    for base_offset, group in groupby(records, key=lambda record: record.base_offset):
        rows = list(group)
        values = [row.record for row in rows]
        batch = encode_batch(values, base_offset, rows[0].epoch, rows[0].timestamp_ms)
        yield batch, [_readable(partial(codec.decode, value)) for value in values]


def _readable(decode: Callable[[], T]) -> T:
    """What is decoded; StoreError, a sentence for the operator, for a record of another version."""
    try:
        return decode()
    except codec.MalformedRecord as unknown:
        raise StoreError(f"the metadata log cannot be read: {unknown}") from unknown

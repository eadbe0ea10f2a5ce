"""The metadata log as record batches of `__cluster_metadata`: how controllers send it and followers read it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from tailrace.metadata import codec
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import MetadataRecord
from tailrace.metadata.replay import replay as replay_records
from tailrace.metadata.snapshot import to_records
from tailrace.records.batch import HEADER_SIZE, read_header
from tailrace.records.record import Record, build, iterate
from tailrace.steps import Steps, whole

TOPIC_ID: Final = UUID(int=1)
SNAPSHOT_BATCH_RECORDS: Final = 1000


class MetadataBatch(NamedTuple):
    """One decision's records, encoded; base and last offset included, epoch of the controller that wrote it."""

    base_offset: int
    last_offset: int
    epoch: int
    data: bytes


class Snapshot(NamedTuple):
    """An image as record batches; it covers all offsets below end_offset."""

    end_offset: int
    epoch: int
    data: bytes


def encode_batch(values: Sequence[bytes], base_offset: int, epoch: int, timestamp_ms: int) -> MetadataBatch:
    """Returns the batch that carries these encoded metadata records."""
    records = (Record(offset=base_offset, timestamp=timestamp_ms, value=value) for value in values)
    data = build(records, base_offset=base_offset, leader_epoch=epoch)
    return MetadataBatch(base_offset, base_offset + len(values) - 1, epoch, bytes(data))


def encode_snapshot(image: MetadataImage, timestamp_ms: int) -> Snapshot:
    """Returns the snapshot of an image."""
    return whole(encode_snapshot_in_steps(image, timestamp_ms))


def encode_snapshot_in_steps(image: MetadataImage, timestamp_ms: int) -> Steps[Snapshot]:
    """As encode_snapshot, a record in a step."""
    parts: list[bytes] = []
    values: list[bytes] = []
    for number, record in enumerate(to_records(image), 1):
        values.append(codec.encode(record))
        yield
        if len(values) == SNAPSHOT_BATCH_RECORDS:
            parts.append(encode_batch(values, number - len(values), image.epoch, timestamp_ms).data)
            values = []
    if values:
        base_offset = len(parts) * SNAPSHOT_BATCH_RECORDS
        parts.append(encode_batch(values, base_offset, image.epoch, timestamp_ms).data)
    return Snapshot(image.offset + 1, image.epoch, b"".join(parts))


def decode_snapshot(snapshot: Snapshot) -> MetadataImage:
    """Returns the image of a snapshot; CORRUPT_MESSAGE or MalformedRecord for anything else."""
    records = (record for batch in _split(snapshot.data) for record in _decode(batch, 0))
    return replay_records(MetadataImage(), records, snapshot.end_offset - 1, snapshot.epoch)


def replay(image: MetadataImage, data: bytes) -> MetadataImage:
    """Returns the image after the batches of a fetch, in one copy; what it already holds is passed over.

    Raises CORRUPT_MESSAGE or MalformedRecord; AssertionError if the batches leave a gap.
    """
    news: list[tuple[memoryview, int]] = []  # batches, and how many of their first records the image holds
    offset, epoch = image.offset, image.epoch
    for batch in _split(data):
        header = read_header(batch)
        if header.last_offset <= offset:
            continue
        assert header.base_offset <= offset + 1, "fetched metadata continues the image"
        news.append((batch, offset + 1 - header.base_offset))
        offset, epoch = header.last_offset, header.partition_leader_epoch
    if not news:
        return image
    records = (record for batch, held in news for record in _decode(batch, held))
    return replay_records(image, records, offset, epoch)


def _decode(batch: memoryview, held: int) -> Iterator[MetadataRecord]:
    """The records of a batch but for the first ones."""
    return (codec.decode(record.value or b"") for record in islice(iterate(batch), held, None))


def _split(data: bytes) -> Iterable[memoryview]:
    view = memoryview(data)
    position = 0
    while len(view) - position >= HEADER_SIZE:
        size = read_header(view[position:]).size_bytes
        yield view[position : position + size]
        position += max(size, HEADER_SIZE)

"""An image as the snapshot that a KRaft node starts from: Kafka's records alone, between its two control records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from struct import Struct
from typing import Final

from tailrace.kafka.features import SECURITY_VERSION
from tailrace.metadata import codec
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import ProducerIdsRecord
from tailrace.metadata.snapshot import to_records
from tailrace.records.record import Record, build

# What a Kafka node is to serve, whatever the level here: group protocols of KIP-848.
_FEATURES: Final = {"group.version": 1}
_OUR_FEATURES: Final = frozenset({SECURITY_VERSION})
_OURS_FROM: Final = 10_000
_BATCH_RECORDS: Final = 1000
_KEY: Final = Struct(">hh")  # version, type
_HEADER, _FOOTER = 3, 4
_HEADER_VALUE: Final = Struct(">hqB")  # version, last contained log timestamp, no tagged fields
_FOOTER_VALUE: Final = Struct(">hB")


def file_name(image: MetadataImage) -> str:
    """Kafka's name: the first offset that it does not cover, and the epoch of the one before."""
    return f"{image.offset + 1:020d}-{image.epoch:010d}.checkpoint"


def encode(image: MetadataImage, now_ms: int) -> bytes:
    """The snapshot's bytes."""
    features = {name: level for name, level in image.features.items() if name not in _OUR_FEATURES}
    image = replace(image, features={**features, **_FEATURES})
    values = list(_values(image))
    offset, parts = 0, []
    for records, control in _batches(values, now_ms):
        parts.append(build(records, base_offset=offset, leader_epoch=image.epoch, control=control))
        offset += len(records)
    return b"".join(parts)


def _values(image: MetadataImage) -> Iterator[bytes]:
    for record in to_records(image):
        # Kafka refuses a next producer id that is not beyond the first one.
        nothing = isinstance(record, ProducerIdsRecord) and not record.next_producer_id
        if codec.api_key(record) < _OURS_FROM and not nothing:
            yield codec.encode(record)


def _batches(values: list[bytes], now_ms: int) -> Iterator[tuple[list[Record], bool]]:
    yield [Record(timestamp=now_ms, key=_KEY.pack(0, _HEADER), value=_HEADER_VALUE.pack(0, now_ms, 0))], True
    for start in range(0, len(values), _BATCH_RECORDS):
        yield [Record(timestamp=now_ms, value=value) for value in values[start : start + _BATCH_RECORDS]], False
    yield [Record(timestamp=now_ms, key=_KEY.pack(0, _FOOTER), value=_FOOTER_VALUE.pack(0, 0))], True

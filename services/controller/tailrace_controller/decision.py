"""One decision on its way from an image to the database. Pure, so that a thread may take it: images do not change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tailrace.metadata import codec
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import MetadataRecord
from tailrace.metadata.replay import replay
from tailrace.net.metadata.batches import MetadataBatch, encode_batch
from tailrace_controller.decide import record_text, resources
from tailrace_controller.decide.controller_result import Decision
from tailrace_controller.decide.election_counts import ElectionCounts, counted
from tailrace_controller.metadata_log.stored import StoredRecord

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Decided(Generic[R_co]):
    """A decision's reply and records with the images around them, and the elections; warnings are for the log."""

    reply: R_co
    records: tuple[MetadataRecord, ...]
    before: MetadataImage
    after: MetadataImage
    elections: ElectionCounts
    warnings: list[str]


def decided(decide: Decision[R], image: MetadataImage, epoch: int) -> Decided[R]:
    """Takes a decision of this controller epoch on an image."""
    effects = decide(image)
    records = effects.records
    record_text.check(records)
    after = replay(image, records, image.offset + len(records), epoch) if records else image
    elections = counted(records)
    return Decided(effects.reply, records, image, after, elections, resources.without_effect(records))


def encoded(
    group: Sequence[Decided[object]], epoch: int, timestamp_ms: int
) -> tuple[list[MetadataBatch], list[StoredRecord]]:
    """A group of decisions as followers get them and as the database stores them."""
    batches, rows = [], []
    for decided in group:
        base_offset = decided.before.offset + 1
        values = [codec.encode(record) for record in decided.records]
        batches.append(encode_batch(values, base_offset, epoch, timestamp_ms))
        rows += [
            StoredRecord(base_offset + index, base_offset, epoch, timestamp_ms, type(record).__name__, value)
            for index, (record, value) in enumerate(zip(decided.records, values, strict=True))
        ]
    return batches, rows

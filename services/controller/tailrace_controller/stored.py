"""What the metadata database takes, gives and refuses; apart from store.py so that nobody imports SQLAlchemy for it."""

from dataclasses import dataclass


class StoreError(Exception):
    """The metadata database cannot be used; the text is a sentence for the operator."""


class Deposed(Exception):
    """The lease row carries another epoch: somebody else is the controller now."""


class OutcomeUnknown(Exception):
    """The append may or may not be in the log; only a reload can tell."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record of the log; base_offset is where its decision begins, so that batches stay whole."""

    offset: int
    base_offset: int
    epoch: int
    timestamp_ms: int
    type: str
    record: bytes


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """The image after all offsets below end_offset, as record batches."""

    end_offset: int
    epoch: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a controller starts from: its new epoch, the next offset, the newest snapshot and all records kept."""

    epoch: int
    next_offset: int
    snapshot: StoredSnapshot | None
    records: tuple[StoredRecord, ...]

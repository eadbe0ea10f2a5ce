"""What the metadata database takes, gives and refuses; apart from store/, which imports SQLAlchemy. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tailrace_controller.metadata_log.lease_row import Lease


class StoreError(Exception):
    """The metadata database cannot be used; the text is a sentence for the operator."""


class Deposed(Exception):
    """The lease row carries another epoch: somebody else is the controller now."""


class ContentRefused(Exception):
    """The database cannot hold what was to be written; nothing of it was written."""


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
class ReportPart:
    """Some rows of one coordinator's report; with the last part goes whatever else it had reported of that kind."""

    kind: str
    rows: Sequence[Mapping[str, object]]
    reported_ms: int  # of the whole report
    last: bool


@dataclass(frozen=True, slots=True)
class ReplayPosition:
    """How far a controller has replayed the log: the next offset it needs, and the epoch of the one before."""

    next_offset: int = 0
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The lease row and what the log holds beyond a position: its next records, or all of it if `whole`.

    A whole one that continues nothing replaces what was replayed before: the log was cut by a snapshot meanwhile, or it
    is another log (`diverged`: its record before the position is of another epoch, or it ends below it).
    asked_ms is when the question went out, on the controller's monotonic clock.
    """

    lease: Lease
    records: tuple[StoredRecord, ...]
    asked_ms: float
    snapshot: StoredSnapshot | None = None
    whole: bool = True
    diverged: bool = False

    @property
    def epoch(self) -> int:
        """The controller epoch of the lease row."""
        return self.lease.epoch

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""
        return self.lease.next_offset

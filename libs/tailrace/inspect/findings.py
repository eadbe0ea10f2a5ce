"""What reading a log directory finds wrong, and what later checks need of earlier ones. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Finding(NamedTuple):
    """Something wrong: where, what, and what to do about it."""

    path: Path
    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}; {self.advice}"


class PartitionFacts(NamedTuple):
    """What is known of a partition before its files are read; dense: nothing says that it was ever compacted."""

    directory: Path
    dense: bool
    clean: bool
    log_start_offset: int


class BatchFacts(NamedTuple):
    """What later checks need of a batch."""

    position: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int


@dataclass
class Verified:
    """What was found, and where the log begins and ends; batches, aborts and aborted are the last segment's."""

    findings: list[Finding] = field(default_factory=list)
    batches: list[BatchFacts] = field(default_factory=list)
    aborts: dict[int, int] = field(default_factory=dict)  # offset of an abort marker: its producer
    aborted: dict[int, int] = field(default_factory=dict)  # those of them that ended a transaction with records
    in_transaction: set[int] = field(default_factory=set)  # producers whose transaction is open where the reading is
    gaps: list[tuple[Path, int, int]] = field(default_factory=list)  # segment, first offset missing, next there is
    compacted: bool = False  # a batch has lost records, or has a time at which it will
    ends: set[int] = field(default_factory=set)  # of the offsets that snapshots name, those where a batch ends
    start_offset: int = 0
    end_offset: int = 0

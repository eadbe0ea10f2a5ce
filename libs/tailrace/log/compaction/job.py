"""A compaction job and its outcome as lines of JSON, between a broker and its cleaner process."""

from __future__ import annotations

import json
from typing import Any, Final

from tailrace.log.compaction.retained import LastRecord
from tailrace.log.compaction.rewrite import Cleaned, Outcome, RewriteJob, RewriteLimits

DAMAGED: Final = "damaged"  # the log cannot be cleaned: a batch of it is not what it says
GONE: Final = "gone"  # files went away under the pass (retention, deletion): nothing is wrong
STORAGE: Final = "storage"  # the disk refused


class CleaningFailed(Exception):
    """A pass that ended without an outcome; kind is DAMAGED, GONE or STORAGE, number the errno of the last."""

    def __init__(self, kind: str, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.kind = kind
        self.number = number


def encode_job(job: RewriteJob) -> bytes:
    """One line."""
    fields = job._asdict()
    fields["limits"] = job.limits._asdict()
    fields["last_records"] = [[producer_id, *last] for producer_id, last in job.last_records.items()]
    return _line(fields)


def decode_job(line: bytes) -> RewriteJob:
    fields = json.loads(line)
    fields["limits"] = RewriteLimits(**fields["limits"])
    fields["last_records"] = {row[0]: LastRecord(row[1], row[2]) for row in fields["last_records"]}
    fields["segments"] = _pairs(fields["segments"])
    return RewriteJob(**fields)


def encode_outcome(outcome: Outcome) -> bytes:
    """One line."""
    return _line(outcome._asdict())


def encode_failure(kind: str, message: str, number: int = 0) -> bytes:
    """One line; number is the errno of what the disk refused."""
    return _line({"failed": kind, "message": message, "number": number})


def decode_outcome(line: bytes) -> Outcome:
    """The outcome; CleaningFailed with what the process said, or if it is not one."""
    fields = json.loads(line)
    if "failed" in fields:
        raise CleaningFailed(fields["failed"], fields["message"], fields["number"])
    fields["groups"] = tuple(Cleaned(base, size, _pairs(sources)) for base, size, sources in fields["groups"])
    return Outcome(**fields)


def _pairs(rows: Any) -> tuple[tuple[int, int], ...]:
    return tuple((base_offset, size_bytes) for base_offset, size_bytes in rows)


def _line(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"

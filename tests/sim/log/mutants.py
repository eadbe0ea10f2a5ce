"""The engine broken on purpose, one rule at a time: the simulator must find each within a few seeds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from sim.worlds import Mutant, broken, without_crc
from tailrace.log import append, lookup
from tailrace.log.compaction.retained import Retention
from tailrace.log.directory import checkpoint_copies
from tailrace.log.directory.offsets import DirOffsets
from tailrace.log.filesystem.memory import MemoryFile
from tailrace.log.flush import Flush
from tailrace.log.leader_epochs import LeaderEpochs
from tailrace.log.local_log import LocalLog
from tailrace.log.log import Log
from tailrace.log.producers import state
from tailrace.log.producers.state import ProducerState
from tailrace.log.read import WAIT, ReadMode
from tailrace.log.recovery import loader
from tailrace.log.segment import search, tail
from tailrace.log.segment.index import INDEX_SUFFIX, TIME_INDEX_SUFFIX, OffsetIndex, TimeIndex
from tailrace.log.segment.segment import Segment
from tailrace.log.segment.transactions import Marker
from tailrace.records.batch import BatchHeader
from tailrace.records.entries import RecordEntry


def _only_names_synced(self: Flush) -> None:
    for name in self.names:
        self.filesystem.sync_directory(name)


def _only_files_synced(self: Flush) -> None:
    for file in self.files:
        file.sync()


def _up_to_the_end(self: Log, done: Flush) -> None:
    self.recovery_point = self.log_end_offset
    self.unsynced.done(done.version)


def _whatever_was_cut(self: Log, done: Flush) -> None:
    self.recovery_point = max(self.recovery_point, done.offset)


def _everywhere(_self: Any, *_arguments: Any) -> bool:
    return False


def _nothing(*_arguments: Any, **_options: Any) -> None:
    return None


def _yes(*_arguments: Any, **_options: Any) -> bool:
    return True


def _as_it_is(content: bytes, *_arguments: Any) -> bytes:
    return content


def _written_after_all(self: append.PendingAppend) -> None:
    _WRITE(self)
    if self.failed is not None:
        self.results = [
            append.LogAppendResult(0, self._log.log_end_offset, self._log.log_end_offset, -1, None)
            if answer.error_code
            else answer
            for answer in self.results
        ]


def _by_batch(segment: Segment, position: int, header: BatchHeader, mode: ReadMode) -> list[Any]:
    first = islice(_RECORDS(segment, position, header, mode), 1)
    return [(header.max_timestamp, offset) for _, offset in first]


def _tombstones_go_at_once(self: Retention, header: BatchHeader) -> Callable[[RecordEntry], bool]:
    stays = _STAYS(self, header)
    return lambda entry: stays(entry) and not entry.tombstone


def _any_is_next(_entry: Any, _header: BatchHeader) -> None:
    return None


def _forgets_where(self: LocalLog, offset: int) -> None:
    self.log_start_offset = max(0, min(offset, self.log_start_offset) - 1) if offset else 0


def _believed(segment: Segment, mode: ReadMode = WAIT) -> tuple[OffsetIndex, TimeIndex]:
    segment.forget_indexes()
    assert segment.indexes is not None
    segment.indexes[0].load(segment.filesystem, segment.path(INDEX_SUFFIX), segment.size_bytes)
    segment.indexes[1].load(segment.filesystem, segment.path(TIME_INDEX_SUFFIX))
    segment.latest_timestamp, segment.latest_offset = segment.indexes[1].last()
    return segment.indexes


def _not_cut(segment: Segment, position: int) -> None:
    _TRUNCATE(segment, position)
    segment.file.pwritev([bytes(10)], position)


def _applied_backwards(self: ProducerState, header: BatchHeader, marker: Marker | None = None) -> Any:
    return _APPLY(self, header, marker) if header.producer_id not in self.entries else None


_WRITE = append.PendingAppend.write
_RECORDS = lookup.times_and_offsets
_STAYS = Retention.stays
_TRUNCATE = tail.truncate
_APPLY = ProducerState.apply

MUTANTS = (
    broken("what a failed sync left is read from the disk", MemoryFile, "reread", _nothing, 151),
    broken("recovery checks the CRC of what may be torn", loader, "validate", without_crc, 5),
    broken("a flush syncs the segments", Flush, "run", _only_names_synced, 1),
    broken("a flush syncs the names of new segments", Flush, "run", _only_files_synced, 2),
    broken("a flush covers what was there when it began", Log, "finish_flush", _up_to_the_end, 5),
    broken("a flush that a cut has overtaken covers nothing", Log, "finish_flush", _whatever_was_cut, 86),
    broken("what a failed write left is cut off", Segment, "_trim", _nothing, 3449),
    broken("what is cut or closed is synced", Segment, "sync", _nothing, 137),
    broken("a cut lowers the recovery point on the disk", DirOffsets, "lower", _nothing, 410),
    broken("lost indexes are made anew", search, "load_indexes", _believed, 79),
    broken("a failed write is refused", append.PendingAppend, "write", _written_after_all, 9),
    broken("a producer's sequence numbers are checked", state, "check", _any_is_next, 1),
    broken("producers are replayed to their last batch", ProducerState, "apply", _applied_backwards, 1),
    broken("a cut takes index entries back", OffsetIndex, "truncate", _nothing, 2),
    broken("a cut takes leader epochs back", LeaderEpochs, "truncate_from_end", _everywhere, 1),
    broken("a cut leaves nothing behind", tail, "truncate", _not_cut, 180),
    broken("timestamps are looked up inside batches", lookup, "times_and_offsets", _by_batch, 1),
    broken("the log start never goes back", LocalLog, "advance_log_start_offset", _forgets_where, 3),
    Mutant(
        "an index is believed where it is true",
        ((search, "begins", _yes), (search, "brought", _yes), (search, "is_first", _yes)),
        28,
    ),
    broken("a checkpoint has a copy", checkpoint_copies, "true_content", _as_it_is, 9),
    broken("leader epochs are the batches'", loader, "agree", _yes, 348),
    broken("tombstones stay for delete.retention.ms", Retention, "stays", _tombstones_go_at_once, 117),
)

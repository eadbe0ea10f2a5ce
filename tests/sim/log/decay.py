"""What one flipped bit may cost: the same disk is opened twice, with the flip and without, and both are compared.

The world goes on without it. Nothing of another batch may be missing with the flip, and nothing be served that is not
served without it, but what docs/storage.md says nobody can tell.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from sim.log.model import Violation
from tailrace.errors import ApiError, ErrorCode
from tailrace.log import lookup
from tailrace.log.directory.checkpoint_copies import COPY_SUFFIX, decode_copy
from tailrace.log.directory.log_dir import LogDir, LogDirRefused
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.leader_epochs import LeaderEpochs
from tailrace.log.log import Log
from tailrace.log.segment.search import collect_aborted
from tailrace.log.segment.valid import headers
from tailrace.records.batch import HEADER_SIZE, BatchHeader, read_header, split, stamp, validate
from tailrace.records.record import Record, build

_WITH_TWIN = "-offset-checkpoint"
SEGMENT, SNAPSHOT, EPOCHS = ".log", ".snapshot", "leader-epoch-checkpoint"
# Refused with a sentence; anybody's; on their way out or in.
_SPARED = ("meta.properties", ".lock", "partition.metadata", ".deleted", ".cleaned", ".swap", ".tmp")

SEGMENTS, HEADERS = 0.4, 0.5  # how often a segment is hit, and in it a header

Open = Callable[[MemoryFilesystem], tuple[LogDir, Log]]


@dataclass(frozen=True)
class Seen:
    """What an opened log answers."""

    clean: bool
    recovery_point: int  # as its checkpoint says
    offsets: tuple[int, ...]  # log start, log end, high watermark, cleaned offset
    batches: dict[int, bytes]  # those whose CRC a consumer finds right, by base offset
    epochs: list[tuple[int, int]]
    aborted: list[tuple[int, int]]
    lookups: dict[int, int | None]  # the offset of each batch's largest timestamp, None where that is damaged
    producers: dict[int, tuple[int, int, int]]  # epoch, last offset, first offset of its open transaction


def open_and_look(filesystem: MemoryFilesystem, open_log: Open) -> tuple[LogDir, Log, Seen]:
    """Starts, and reads all of the log."""
    logs, log = open_log(filesystem)
    return logs, log, look(logs, log)


def look(logs: LogDir, log: Log) -> Seen:
    """Reads all of the log."""
    (place,) = logs.open_logs()
    batches = dict(_consumed(log))
    return Seen(
        logs.last_shutdown.clean,
        logs.offsets.recovery_points.get(place, 0),
        (log.log_start_offset, log.log_end_offset, logs.high_watermarks.get(place, 0), log.cleaned_offset),
        batches,
        log.epochs.entries(),
        collect_aborted(log.segments, log.log_start_offset, log.log_end_offset),
        {
            timestamp: _offset(log, timestamp)
            for timestamp in {read_header(one).max_timestamp for one in batches.values()}
        },
        {
            producer_id: (
                entry.producer_epoch,
                entry.batches[-1].last_offset if entry.batches else -1,
                entry.current_txn_first_offset,
            )
            for producer_id, entry in log.producers.entries.items()
        },
    )


def _offset(log: Log, timestamp: int) -> int | None:
    try:
        found = lookup.find(log, timestamp)
    except ApiError:
        return None
    return None if found is None else found.offset


def _consumed(log: Log) -> Iterator[tuple[int, bytes]]:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            found = split(log.read(offset, 1000).read())
            for batch in found:
                header = validate(batch)
                if header.next_offset <= offset:
                    raise Violation(f"a read at {offset} answered what ends at {header.next_offset}")
                yield header.base_offset, bytes(batch)
                offset = header.next_offset
            if not found:
                return
        except ApiError as refused:
            if refused.code != ErrorCode.CORRUPT_MESSAGE:
                raise Violation(f"a read at {offset} was answered {refused.code}") from refused
            offset += 1


def decay(filesystem: MemoryFilesystem, dice: random.Random, open_log: Open, *, dense: bool) -> str:
    """Flips a bit of a copy of the disk and compares; what was flipped."""
    paths = [path for path in filesystem.files() if filesystem.content(path) and not path.endswith(_SPARED)]
    by_kind: dict[str, list[str]] = {}
    for path in paths:
        if not _has_lost_its_twin(filesystem, path):
            by_kind.setdefault("." + path.rpartition("/")[2].rpartition(".")[2], []).append(path)
    if not by_kind:
        return "nothing"
    kind = SEGMENT if SEGMENT in by_kind and dice.random() < SEGMENTS else dice.choice(sorted(by_kind))
    path = dice.choice(by_kind[kind])
    bit = 8 * _byte(filesystem.content(path), kind, dice) + dice.randrange(8)
    what = f"bit {bit % 8} of byte {bit // 8} of {path}"
    _, log, valid = open_and_look(filesystem.fork(), open_log)
    hit = _batch_of(log, path, bit // 8) if path.endswith(SEGMENT) else None
    flipped = filesystem.fork()
    flipped.decay(path, bit)
    try:
        logs, log, seen = open_and_look(flipped, open_log)
        Comparison(valid, seen, path, hit, dense).check()
        _goes_on(flipped, logs, log, seen, open_log)
    except (Violation, LogDirRefused) as broken:
        raise Violation(f"{what} (of {hit}): {broken}") from broken
    return what


def _byte(content: bytearray, kind: str, dice: random.Random) -> int:
    """Any byte; of a segment half of the time one of a batch's header."""
    if kind != SEGMENT or dice.random() < HEADERS or len(content) < HEADER_SIZE:
        return dice.randrange(len(content))
    starts, at = [0], 0
    while at + HEADER_SIZE <= len(content):
        starts.append(at)
        at += max(HEADER_SIZE, read_header(content, at).size_bytes)
    return dice.choice(starts) + dice.randrange(HEADER_SIZE)


def _has_lost_its_twin(filesystem: MemoryFilesystem, path: str) -> bool:
    """Whether the power failed before a checkpoint's twin was on the disk: then the flip is a second fault."""
    if not path.endswith(_WITH_TWIN):
        return False
    twin = path + COPY_SUFFIX
    return twin not in filesystem.files() or decode_copy(bytes(filesystem.content(twin))) is None


def _batch_of(log: Log, path: str, position: int) -> BatchHeader | None:
    """The batch that lies there; None of a segment that is not read, or of what recovery cut."""
    for segment in log.segments:
        if segment.path(SEGMENT) == path:
            for at, header in headers(segment, 0):
                if at <= position < at + header.size_bytes:
                    return header
    return None


@dataclass(frozen=True)
class Comparison:
    """A log with a flip in the file at path, beside what it is without; hit is the batch that has the flip."""

    valid: Seen
    seen: Seen
    path: str
    hit: BatchHeader | None
    dense: bool

    def check(self) -> None:
        """Raises Violation."""
        self.nothing_wrong()
        self.nothing_missing()
        if self.hit is None:
            self.nothing_else_changed()

    def nothing_wrong(self) -> None:
        """Only what is there without the flip."""
        for offset, batch in self.seen.batches.items():
            truth = self.valid.batches.get(offset)
            moved = truth is None and not self.dense and self.hit is not None  # within a gap that compaction left
            if moved and self.hit is not None:
                truth = self.valid.batches.get(self.hit.base_offset)
            start = 8 if moved else 0  # its leader epoch has no CRC, either
            if truth is None or batch[start:12] + batch[16:] != truth[start:12] + truth[16:]:
                raise Violation(f"{batch!r} is served at {offset} in place of {truth!r}")
            if batch != truth and (self.hit is None or self.hit.base_offset not in self.valid.batches):
                raise Violation(f"the batch at {offset} has another leader epoch")

    def nothing_missing(self) -> None:
        """All but the batch that was hit and, in what no flush had covered, all behind it."""
        missing = self.valid.batches.keys() - self.seen.batches.keys()
        end, found = self.valid.offsets[1], self.seen.offsets[1]
        if self.hit is None:
            if missing:
                raise Violation(f"the batches at {sorted(missing)} are missing")
            return
        unflushed = not self.valid.clean and self.hit.next_offset > self.valid.recovery_point
        lowest = self.hit.base_offset
        if unflushed:
            missing = {offset for offset in missing if offset < lowest}
        if missing - {lowest}:
            raise Violation(f"the batches at {sorted(missing - {lowest})} are missing")
        behind = max(
            (read_header(batch).next_offset for at, batch in self.valid.batches.items() if at < lowest), default=0
        )
        if found != end and not (unflushed and behind <= found):
            raise Violation(f"the log ends at {found}, not at {end}")

    def nothing_else_changed(self) -> None:
        """What other files say is as it was, or was made anew."""
        valid, seen = self.valid, self.seen
        if seen.offsets != valid.offsets:
            raise Violation(f"the offsets are {seen.offsets}, not {valid.offsets}")
        if seen.lookups != valid.lookups:
            raise Violation(f"timestamps are found at {seen.lookups}, not at {valid.lookups}")
        if seen.aborted != valid.aborted:
            raise Violation(f"the aborted transactions are {seen.aborted}, not {valid.aborted}")
        if seen.epochs != valid.epochs and not self._tolerable_epochs():
            raise Violation(f"the epochs are {seen.epochs}, not {valid.epochs}")
        known = {read_header(batch).last_offset for batch in valid.batches.values()}
        for producer_id, entry in valid.producers.items():
            # Of a snapshot that is gone, what wrote nothing that is still in the log is forgotten, as in Kafka.
            forgotten = self.path.endswith(SNAPSHOT) and entry[1] not in known
            found = seen.producers.get(producer_id)
            if found != entry and not forgotten and not self._begins_later(producer_id, entry, found):
                raise Violation(f"producer {producer_id} is {found}, not {entry}")

    def _begins_later(self, producer_id: int, entry: tuple[int, int, int], found: tuple[int, int, int] | None) -> bool:
        """Whether only the snapshot knew that its transaction began before what is still in the log."""
        if not self.path.endswith(SNAPSHOT) or found is None or found[:2] != entry[:2] or entry[2] < 0:
            return False
        own = [
            header.base_offset
            for header in map(read_header, self.valid.batches.values())
            if header.producer_id == producer_id and header.base_offset >= entry[2]
        ]
        return entry[2] < min(own, default=-1) == found[2]

    def _tolerable_epochs(self) -> bool:
        """One that begins a batch too early, or after a crash a first one that begins later."""
        valid, seen, of_file = self.valid.epochs, self.seen.epochs, self.path.endswith(EPOCHS)
        if of_file and valid and valid[-1] not in seen and self._batches_of(valid[-1][0]) < 2:
            valid = valid[:-1]  # of an epoch without a batch only the file knew; a single one is not believed alone
        # Whose beginning lies behind the log's start, after DeleteRecords and a crash that took its checkpoint, may
        # be read again from the batches.
        if valid and seen and [entry for entry in seen if entry[1] > valid[0][1]] == valid[1:]:
            return True
        if valid and seen and [entry for entry in valid if entry[1] > seen[0][1]] == seen[1:]:
            return True
        if not of_file or any(one[1] >= two[1] for one, two in pairwise(seen)):
            return False
        # Compaction may have taken the batch that began an epoch, of which only the file knew where it lay.
        if not self.dense and all(self._epoch_of(at, valid) == _epoch_at(seen, at) for at in self.valid.batches):
            return True
        different = [(one, two) for one, two in zip(valid, seen, strict=False) if one != two]
        if len(valid) != len(seen) or len(different) != 1:
            # What nobody has written batches in, nobody can compare.
            return not self.valid.batches or [e for e in seen if e in valid] == seen
        ((epoch, start), (other, found)) = different[0]
        first_is_late = not self.valid.clean and (epoch, start) == valid[0] and found > start
        without_batch = not any(start <= at for at in self.valid.batches)
        a_batch_early = found == max((at for at in self.valid.batches if at < start), default=-1)
        return without_batch or (epoch == other and (first_is_late or a_batch_early))

    def _batches_of(self, epoch: int) -> int:
        return sum(read_header(batch).partition_leader_epoch == epoch for batch in self.valid.batches.values())

    def _epoch_of(self, offset: int, valid: list[tuple[int, int]]) -> int:
        """As the file has it; what it says nothing of any more, after a crash that took the log's start, the batch."""
        told = bool(valid) and offset >= valid[0][1]
        return _epoch_at(valid, offset) if told else read_header(self.valid.batches[offset]).partition_leader_epoch


def _epoch_at(epochs: list[tuple[int, int]], offset: int) -> int:
    return LeaderEpochs(epochs).epoch_at(offset)


def _goes_on(filesystem: MemoryFilesystem, logs: LogDir, log: Log, seen: Seen, open_log: Open) -> None:
    """Appends, stops and starts: what was served still is, and what came."""
    data = build([Record(timestamp=0, key=b"key", value=b"later")])
    stamp(data, 0, log.log_end_offset, max(log.epochs.latest, 0))
    log.append_replicated(bytes(data), 0)
    logs.close()
    filesystem.kill()
    again = open_and_look(filesystem, open_log)[2]
    for offset, batch in [*seen.batches.items(), (seen.offsets[1], bytes(data))]:
        if again.batches.get(offset) != batch:
            raise Violation(f"after another start the batch at {offset} is {again.batches.get(offset)!r}")

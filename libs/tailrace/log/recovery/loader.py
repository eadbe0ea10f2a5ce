"""Opening a log's directory: finish what a crash interrupted, check what may be torn, rebuild what is derived."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Final, NamedTuple

from tailrace.errors import ApiError
from tailrace.log.filesystem.checkpoints import LEADER_EPOCH, DamagedCheckpoint, format_epochs, parse_epochs
from tailrace.log.filesystem.names import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX, TEMPORARY_SUFFIX
from tailrace.log.filesystem.port import Filesystem, join, read_file
from tailrace.log.leader_epochs import LeaderEpochs
from tailrace.log.recovery.leader_epoch_check import agree, from_batches
from tailrace.log.recovery.transactions import restore
from tailrace.log.segment.batches import raw_headers, scan
from tailrace.log.segment.damage import examine, intact, may_follow, walk
from tailrace.log.segment.index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from tailrace.log.segment.search import indexes_of
from tailrace.log.segment.segment import (
    EVERYWHERE,
    LOG_SUFFIX,
    MAX_RELATIVE_OFFSET,
    SUFFIXES,
    Hole,
    Segment,
    bases_of,
    file_name,
)
from tailrace.log.segment.tail import resume
from tailrace.log.segment.transaction_index import TRANSACTION_INDEX_SUFFIX, TRANSACTION_SUMS_SUFFIX, TransactionIndex
from tailrace.log.segment.valid import headers
from tailrace.records.batch import CONTROL, TRANSACTIONAL, BatchHeader, validate

_MARKER: Final = CONTROL | TRANSACTIONAL


class RecoveryStopped(Exception):
    """The broker stops, or the log is not wanted any more; what recovery has done so far does no harm."""


class RecoveryProgress:
    """How far the recovery of one log has come: for another thread, which may also stop it."""

    __slots__ = ("segments_left", "stopped")

    def __init__(self, segments_left: int = 0) -> None:
        self.segments_left = segments_left
        self.stopped = False

    def passed(self, header: BatchHeader) -> None:
        """A batch comes next. Raises RecoveryStopped."""
        if self.stopped:
            raise RecoveryStopped


class Recovered(NamedTuple):
    """A log's parts, ready for appends at log_end_offset; cut_bytes is what recovery took off the tail.

    epochs_mended: leader-epoch-checkpoint was damaged, and the epochs are the batches'.
    """

    segments: list[Segment]
    epochs: LeaderEpochs
    log_end_offset: int
    cut_bytes: int
    epochs_mended: bool


def recover(
    filesystem: Filesystem,
    directory: str,
    *,
    recovery_point: int,
    log_start_offset: int,
    index_interval_bytes: int,
    clean: bool,
    dense: bool,
    cleaned_offset: int | None,
    progress: RecoveryProgress,
) -> Recovered:
    """Loads the log; without a clean shutdown everything from the recovery point on is checked, batch by batch.

    dense: nobody here has compacted the log, so that a gap between segments is a lost tail. Within them there may be
    gaps all the same, of a leader's compaction. cleaned_offset: what a cleaner here has seen, None if nobody knows.
    """
    names = finish_swaps(filesystem, directory, tidy(filesystem, directory))
    epochs, readable = load_epochs(filesystem, directory, names)
    said = epochs.entries()  # before what lies behind the log's end is forgotten: it may be a flipped beginning
    segments = []
    for base_offset in bases_of(names):
        segment = Segment(filesystem, directory, base_offset, index_interval_bytes)
        segment.size_bytes = filesystem.open(segment.path(LOG_SUFFIX)).stat().size_bytes
        segments.append(segment)
    if not segments:
        segments.append(Segment(filesystem, directory, log_start_offset, index_interval_bytes))
        segments[0].create()
    for segment, following in pairwise(segments):
        segment.end_offset = following.base_offset
    for segment in segments:
        segment.valid_from = segment.valid_to = segment.size_bytes  # what lies there nobody has looked at
    segments[-1].valid_to = EVERYWHERE
    if clean:
        log_end_offset, cut, checked = end_after_clean_stop(segments[-1], recovery_point), 0, len(segments)
    else:
        checked = max(0, bisect_right([segment.base_offset for segment in segments], recovery_point) - 1)
        # No pass of ours leaves a segment empty; below either offset a Kafka's may have.
        emptied = None if cleaned_offset is None else max(recovery_point, cleaned_offset)
        log_end_offset, cut = check_tail(segments, recovery_point, epochs, dense, emptied, progress)
    restore(filesystem, directory, names, segments, checked)
    if not clean:
        epochs.truncate_from_end(log_end_offset)
    # What has no file yet needs no comparing: the batches that recovery read have said it.
    agreed = readable and agree(epochs, segments, log_start_offset, log_end_offset, clean=clean)
    wrong = not agreed and (LEADER_EPOCH in names or not clean)
    if wrong:
        epochs = from_batches(segments, epochs, said)
    epochs.truncate_from_end(log_end_offset)
    return Recovered(segments, epochs, log_end_offset, cut, wrong)


def end_after_clean_stop(segment: Segment, recovery_point: int) -> int:
    """The log end offset after a clean shutdown, which left the recovery point there."""
    next_offset = resume(segment)
    if next_offset != recovery_point > segment.base_offset:
        examine(segment, suspected=False, anchor=recovery_point)
        next_offset = resume(segment)
    if segment.holes and segment.holes[-1].end == segment.size_bytes:
        next_offset = _believable(segment, recovery_point, next_offset)
        segment.holes = (*segment.holes[:-1], segment.holes[-1]._replace(next_offset=next_offset))
    return next_offset


def _believable(segment: Segment, recovery_point: int, next_offset: int) -> int:
    """Where a segment ends whose last batch is damaged: at the recovery point, if it can hold that offset."""
    highest = segment.base_offset + MAX_RELATIVE_OFFSET
    return recovery_point if next_offset < recovery_point <= highest else next_offset


def tidy(filesystem: Filesystem, directory: str) -> set[str]:
    """Removes what was being deleted or written when the process ended; returns the names that are left."""
    names = set(filesystem.list(directory))
    for name in sorted(names):
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
            filesystem.remove(join(directory, name))
            names.discard(name)
    return names


def finish_swaps(filesystem: Filesystem, directory: str, names: set[str]) -> set[str]:
    """Completes a compaction whose .swap file is there: it replaces the segments that its offsets cover."""
    swaps = [name.removesuffix(SWAP_SUFFIX) for name in names if name.endswith(SWAP_SUFFIX)]
    for base_offset in bases_of(swaps):
        name = file_name(base_offset, LOG_SUFFIX) + SWAP_SUFFIX
        swap = Segment(filesystem, directory, base_offset, 0)
        file = filesystem.open(join(directory, name))
        end_offset = _end_offset(swap, file.stat().size_bytes, join(directory, name))
        for base in bases_of(names):
            if base_offset <= base < max(end_offset, base_offset + 1):
                stem = file_name(base, "")
                # Oldest first: a tombstone must not go before the values that it hides.
                for suffix in reversed(SUFFIXES):
                    if stem + suffix in names:
                        filesystem.remove(join(directory, stem + suffix))
                        names.discard(stem + suffix)
        neighbours = [
            name[:20] + suffix + SWAP_SUFFIX for suffix in (TRANSACTION_INDEX_SUFFIX, TRANSACTION_SUMS_SUFFIX)
        ]
        for swapped in [*filter(names.__contains__, neighbours), name]:
            filesystem.rename(join(directory, swapped), join(directory, swapped.removesuffix(SWAP_SUFFIX)))
            names.discard(swapped)
            names.add(swapped.removesuffix(SWAP_SUFFIX))
    for name in sorted(name for name in names if name.endswith(SWAP_SUFFIX)):
        filesystem.remove(join(directory, name))  # an index: rebuilt from its log
        names.discard(name)
    return names


def _end_offset(segment: Segment, size_bytes: int, path: str) -> int:
    segment.open_as(path, size_bytes)
    end_offset = segment.base_offset
    for _, header in headers(segment, 0):
        end_offset = header.next_offset
    return end_offset


def load_epochs(filesystem: Filesystem, directory: str, names: set[str]) -> tuple[LeaderEpochs, bool]:
    """The leader epochs as last written, and whether the file is as it was; what no flush wrote the batches bring."""
    if LEADER_EPOCH not in names:
        return LeaderEpochs(), True
    try:
        content = read_file(filesystem, join(directory, LEADER_EPOCH))
        entries = parse_epochs(content) if content else []  # empty: Kafka's before its first epoch
        return LeaderEpochs(entries), content in (b"", format_epochs(entries))
    except (DamagedCheckpoint, ValueError):
        return LeaderEpochs(), False


def check_tail(
    segments: list[Segment],
    recovery_point: int,
    epochs: LeaderEpochs,
    dense: bool,
    emptied: int | None,
    progress: RecoveryProgress,
) -> tuple[int, int]:
    """Cuts at the first bad batch from recovery_point on and drops what lies behind it; (log end offset, bytes cut).

    emptied: below it a segment may be empty by compaction, None: anywhere.
    """
    first = max(0, bisect_right([segment.base_offset for segment in segments], recovery_point) - 1)
    log_end_offset = segments[first].base_offset
    cut, gaps = 0, not dense
    for index in range(first, len(segments)):
        segment = segments[index]
        progress.segments_left = len(segments) - index
        log_end_offset, valid, gaps = check_segment(segment, recovery_point, epochs, gaps, progress)
        last = index + 1 == len(segments)
        empty = emptied is not None and emptied <= log_end_offset == segment.base_offset
        gap = not last and (dense or empty) and _lost_tail(segment, segments[index + 1], log_end_offset)
        if valid < segment.size_bytes or gap:
            # Newest first, and on the disk before the cut: a crash in between leaves no gap, which nobody would find
            # in a compacted log.
            for later in reversed(segments[index + 1 :]):
                cut += later.size_bytes
                remove_segment(later)
            del segments[index + 1 :]
            segment.end_offset = None
            segment.filesystem.sync_directory(segment.directory)
            if valid < segment.size_bytes:
                cut += segment.size_bytes - valid
                segment.cut(valid)
                segment.size_bytes = valid
            break
        if not last:
            indexes_of(segment)
            segment.seal()
            segment.save_indexes()
    return log_end_offset, cut


def _lost_tail(segment: Segment, following: Segment, log_end_offset: int) -> bool:
    """Whether records are missing between the two: not where that is wider than a segment, so that a roll left it."""
    width = following.base_offset - segment.base_offset
    return log_end_offset != following.base_offset and width <= MAX_RELATIVE_OFFSET + 1


def check_segment(
    segment: Segment, recovery_point: int, epochs: LeaderEpochs, gaps: bool, progress: RecoveryProgress
) -> tuple[int, int, bool]:
    """(next offset, position behind the last good batch, gaps) of a segment, whose indexes are rebuilt on the way.

    gaps: whether the log is known to have some, of compaction. What lies below the recovery point was on the disk: of
    that nothing is cut. Where it is damaged it stays, as a hole.
    """
    checked = _Checked(segment, epochs, recovery_point)
    overlap = False
    for position, header in raw_headers(segment, 0):
        overlap = header.base_offset < checked.next_offset
        if overlap or header.next_offset > recovery_point:
            break
        progress.passed(header)
        checked.take(position, header)
    # Of the last segment also where no byte is left over: the length in offsets of its last batch may be what flipped.
    more = checked.valid < segment.size_bytes or segment.end_offset is None
    lacks = checked.next_offset < recovery_point and more
    if overlap or lacks or checked.hides_what_follows():
        checked = _around_holes(segment, recovery_point, epochs)
    for position, data in scan(segment, checked.valid):
        try:
            header = validate(data)
        except ApiError:
            break
        gaps = gaps or checked.gaps
        if not _continues(checked, position, header, gaps):
            break
        progress.passed(header)
        checked.take(position, header)
    segment.valid_from = 0
    return checked.next_offset, checked.valid, gaps or checked.gaps


def _continues(checked: _Checked, position: int, header: BatchHeader, gaps: bool) -> bool:
    """Whether a batch whose CRC is right is the log's next by what its CRC does not cover, too."""
    segment, expected = checked.segment, checked.next_offset
    # The base offset: one that its segment could not hold was damaged.
    highest = segment.base_offset + MAX_RELATIVE_OFFSET
    if not expected <= header.base_offset <= header.last_offset <= highest:
        return False
    behind_hole = bool(segment.holes) and segment.holes[-1].end == position
    if header.base_offset > expected and (behind_hole or not may_follow(segment, position, header, expected, gaps)):
        return False
    # The leader epoch, which never goes back; but what is on the disk may be the wrong one.
    flushed = expected <= checked.recovery_point
    return header.partition_leader_epoch >= (min(checked.epoch, checked.epoch_before) if flushed else checked.epoch)


class _Checked:
    """How far a segment's check has come."""

    def __init__(self, segment: Segment, epochs: LeaderEpochs, recovery_point: int) -> None:
        segment.forget_indexes()
        self.next_offset, self.valid = segment.base_offset, 0
        self.epoch_before = self.epoch = -1
        self.gaps = False  # a batch follows that begins later than it could
        self._last: tuple[int, int] | None = None  # (position, offset) of the last batch
        self.segment, self.recovery_point, self._epochs = segment, recovery_point, epochs

    def take(self, position: int, header: BatchHeader) -> None:
        """The batch is the log's."""
        if header.next_offset > self.recovery_point:  # of what lies below, the flush has written them
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)
        self.segment.note(header, position)
        _note_control(self.segment, header)
        self._last = position, header.base_offset
        self.gaps = self.gaps or header.base_offset > self.next_offset
        self.next_offset, self.valid = header.next_offset, position + header.size_bytes
        self.epoch_before, self.epoch = self.epoch, header.partition_leader_epoch

    def hides_what_follows(self) -> bool:
        """Whether the last batch is not sound, and something sound follows, but not where it ends by its length."""
        segment = self.segment
        if self._last is None or intact(segment, self.valid) is not None or intact(segment, self._last[0]) is not None:
            return False
        found = next(walk(segment, *self._last, segment.end_offset, self.recovery_point))
        return isinstance(found, Hole) and found.end < segment.size_bytes


def _around_holes(segment: Segment, recovery_point: int, epochs: LeaderEpochs) -> _Checked:
    """As far as the recovery point, where something below it is damaged."""
    checked, holes = _Checked(segment, epochs, recovery_point), []
    for found in walk(segment, 0, segment.base_offset, segment.end_offset, recovery_point):
        if isinstance(found, Hole):
            if found.first_offset >= recovery_point or _is_torn_tail(segment, found, recovery_point):
                break
            # What it hides behind the recovery point no flush had covered: a lost tail, and no part of the hole.
            checked.next_offset, checked.valid = min(found.next_offset, recovery_point), found.end
            if found.end == segment.size_bytes and segment.end_offset is None:
                checked.next_offset = _believable(segment, recovery_point, checked.next_offset)
            holes.append(found._replace(next_offset=checked.next_offset))
        elif found[1].next_offset > recovery_point:
            break
        else:
            checked.take(*found)
    segment.examined, segment.holes = bool(holes), tuple(holes)
    return checked


def _is_torn_tail(segment: Segment, hole: Hole, recovery_point: int) -> bool:
    """Whether this is what a power cut left of batches that were to come behind the recovery point.

    A log that was cut where compaction had left a gap ends behind its last batch, and so may its recovery point. What
    was damaged by a bit still says that it lies below that point, or has a right CRC.
    """
    if segment.end_offset is not None or hole.end != segment.size_bytes:
        return False
    base_offset = int.from_bytes(segment.file.pread(8, hole.position), "big", signed=True)
    if hole.first_offset <= base_offset < recovery_point:
        return False
    try:
        validate(next(scan(segment, hole.position))[1])
    except ApiError:
        return True
    return False


def _note_control(segment: Segment, header: BatchHeader) -> None:
    """Markers make a transaction index necessary."""
    if header.attributes & _MARKER == _MARKER and segment.aborted is None:
        segment.aborted = TransactionIndex()


def remove_segment(segment: Segment) -> None:
    """Removes its files at once; a transaction index goes with those that no segment has any more."""
    for suffix in (TIME_INDEX_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX):
        try:
            segment.filesystem.remove(segment.path(suffix))
        except FileNotFoundError:
            continue

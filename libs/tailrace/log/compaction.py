"""Compaction of closed segments: the latest value of every key stays, offsets are kept, a crash does no harm.

A pass reads the dirty part into a map from key to latest offset, then copies all closed segments up to there without
what the map has superseded. Tombstones stay for delete.retention.ms after the pass that first met them (KIP-534).
Copies are .cleaned files; the log swaps them in group by group (recovery.finish_swaps completes a swap after a crash).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tailrace.errors import ApiError
from tailrace.log.config import LogSettings
from tailrace.log.filesystem import Filesystem
from tailrace.log.recovery import CLEANED_SUFFIX, SWAP_SUFFIX
from tailrace.log.segment import INDEX_SUFFIX, LOG_SUFFIX, MAX_RELATIVE_OFFSET, TIME_INDEX_SUFFIX, Segment
from tailrace.records.batch import BatchHeader, Bytes, read_header, without_records
from tailrace.records.record import Record, iterate, rebuild, with_delete_horizon

_STEP_BYTES: Final = 256 * 1024
_MAX_KEY_BYTES: Final = 64 * 1024 * 1024
_KEY_OVERHEAD: Final = 120  # what Python adds to a key in the map


class Plan(NamedTuple):
    """What a pass works on: closed segments, oldest first, of which those from first_dirty_offset on are dirty."""

    segments: tuple[Segment, ...]
    first_dirty_offset: int
    end_offset: int


def plan(
    segments: Sequence[Segment], cleaned_offset: int, high_watermark: int, settings: LogSettings, now_ms: int
) -> Plan | None:
    """The closed segments to compact now (the last of segments is the active one); None if it is not worth it yet."""
    if "compact" not in settings.cleanup_policy:
        return None
    cleanable, end_offset = [], cleaned_offset
    for segment, following in pairwise(segments):
        young = settings.min_compaction_lag_ms > 0 and segment.max_timestamp > now_ms - settings.min_compaction_lag_ms
        if following.base_offset > high_watermark or (young and following.base_offset > cleaned_offset):
            break
        cleanable.append(segment)
        end_offset = following.base_offset
    ends = [segment.base_offset for segment in segments[1 : len(cleanable) + 1]]
    dirty = [segment for segment, end in zip(cleanable, ends, strict=True) if end > cleaned_offset]
    total_bytes = sum(segment.size_bytes for segment in cleanable)
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    if not dirty_bytes:
        return None
    overdue = now_ms - _first_timestamp(dirty[0]) > settings.max_compaction_lag_ms
    if dirty_bytes < settings.min_cleanable_dirty_ratio * total_bytes and not overdue:
        return None
    return Plan(tuple(segment.view() for segment in cleanable), cleaned_offset, end_offset)


def _first_timestamp(segment: Segment) -> int:
    first = next(segment.headers(0), None)
    return first[1].base_timestamp if first else 0


class Group(NamedTuple):
    """Neighbouring segments and the one that takes their place."""

    sources: tuple[Segment, ...]
    output: Segment


class Compaction:
    """One pass. run() and steps() touch nothing of the log: they may go on in another thread while it is used."""

    def __init__(
        self,
        filesystem: Filesystem,
        todo: Plan,
        settings: LogSettings,
        now_ms: int,
        last_offsets: Mapping[int, int],
        max_key_bytes: int = _MAX_KEY_BYTES,
    ) -> None:
        self.groups: list[Group] = []
        self.cleaned_offset = todo.first_dirty_offset  # the pass has covered everything below, once it is finished
        self._filesystem = filesystem
        self._todo = todo
        self._settings = settings
        self.now_ms = now_ms
        self._last_offsets = last_offsets  # of each producer: its last batch stays, if without records
        self._max_key_bytes = max_key_bytes
        self._latest: dict[bytes, int] = {}

    def run(self) -> None:
        """Does the whole pass."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """Does the pass in small steps, about 256 KiB each."""
        yield from self._map_keys()
        sources = [segment for segment in self._todo.segments if segment.base_offset < self.cleaned_offset]
        for group in _grouped(sources, self._settings.segment_bytes, self._todo.end_offset):
            yield from self._copy(group)

    def _map_keys(self) -> Iterator[None]:
        key_bytes = done = 0
        for segment in self._todo.segments:
            # What supersedes a value must outlive a power loss before the value may go.
            segment.file.sync()
            start = segment.position_of(self._todo.first_dirty_offset)
            for position, header in segment.headers(start):
                if key_bytes > self._max_key_bytes:
                    self.cleaned_offset = header.base_offset
                    return
                if not header.is_control and header.record_count:
                    for record in _records(segment.read_batch(position, header)) or ():
                        if record.key is not None:
                            key_bytes += 0 if record.key in self._latest else len(record.key) + _KEY_OVERHEAD
                            self._latest[record.key] = record.offset
                done += header.size_bytes
                if done >= _STEP_BYTES:
                    done = 0
                    yield
        self.cleaned_offset = self._todo.end_offset

    def _copy(self, sources: tuple[Segment, ...]) -> Iterator[None]:
        first = sources[0]
        output = Segment(self._filesystem, first.directory, first.base_offset, first.index_interval_bytes)
        output.name_suffix = CLEANED_SUFFIX
        output.create()
        pending: list[Bytes] = []
        done = 0
        for source in sources:
            for position, header in source.headers(0):
                data = self._retained(header, source.read_batch(position, header))
                if data is not None:
                    pending.append(data)
                done += header.size_bytes
                if done >= _STEP_BYTES:
                    _write(output, pending)
                    done = 0
                    yield
        _write(output, pending)
        output.seal()
        for file in (output.file, *output.save_indexes()):
            file.sync()
        self.groups.append(Group(sources, output))

    def _retained(self, header: BatchHeader, data: bytes) -> Bytes | None:
        """What stays of a batch: itself, fewer records, only its header, or nothing."""
        if header.is_control:
            return data
        records = _records(data)
        if records is None:
            return data
        expired = header.has_delete_horizon and header.base_timestamp <= self.now_ms
        kept = [record for record in records if self._stays(record, expired)]
        if not kept:
            last = header.producer_id >= 0 and self._last_offsets.get(header.producer_id) == header.last_offset
            return without_records(header) if last else None
        if not header.has_delete_horizon and any(record.value is None for record in kept):
            return rebuild(with_delete_horizon(header, self.now_ms + self._settings.delete_retention_ms), kept)
        return data if len(kept) == len(records) else rebuild(header, kept)

    def _stays(self, record: Record, expired: bool) -> bool:
        if record.key is None or (record.value is None and expired):
            return False  # as in Kafka, a record without a key has no place in a compacted log
        return record.offset >= self._latest.get(record.key, -1)


def _records(data: bytes) -> list[Record] | None:
    """The records of a batch; None for one that its producer filled with nonsense, which compaction leaves alone."""
    try:
        return list(iterate(data))
    except ApiError:
        return None


def _write(output: Segment, pending: list[Bytes]) -> None:
    if pending:
        output.append(pending, [read_header(data) for data in pending])
        pending.clear()


def _grouped(segments: Sequence[Segment], segment_bytes: int, end_offset: int) -> Iterator[tuple[Segment, ...]]:
    """Neighbours that fit into one segment together, so that emptied segments do not pile up."""
    group: list[Segment] = []
    size = 0
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
    for segment, segment_end in zip(segments, ends, strict=True):
        too_wide = bool(group) and segment_end - group[0].base_offset > MAX_RELATIVE_OFFSET
        if group and (size + segment.size_bytes > segment_bytes or too_wide):
            yield tuple(group)
            group, size = [], 0
        group.append(segment)
        size += segment.size_bytes
    if group:
        yield tuple(group)


def swap_in(group: Group, retire: Callable[[Segment], None]) -> None:
    """Puts the copy in its sources' place: from the rename to .swap on, a crash leads to the new state."""
    output = group.output
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
        path = output.path(suffix)
        output.filesystem.rename(path, path.removesuffix(CLEANED_SUFFIX) + SWAP_SUFFIX)
    output.filesystem.sync_directory(output.directory)
    # Oldest first: a tombstone must not go before the values that it hides.
    for source in group.sources:
        retire(source)
    output.name_suffix = ""
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
        output.filesystem.rename(output.path(suffix) + SWAP_SUFFIX, output.path(suffix))
    output.filesystem.sync_directory(output.directory)


def discard(group: Group) -> None:
    """Removes the copy of a group that is not wanted any more."""
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
        try:
            group.output.filesystem.remove(group.output.path(suffix))
        except FileNotFoundError:
            continue

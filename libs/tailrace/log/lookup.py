"""Finding records by timestamp, exact also inside compressed batches and with timestamps out of order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tailrace.errors import ApiError
from tailrace.log.local_log import LocalLog
from tailrace.log.read import WAIT, InHaste, Missing, Needs, ReadMode, TimestampOffset
from tailrace.log.segment.search import max_timestamp, offset_before, position_of
from tailrace.log.segment.segment import Segment
from tailrace.log.segment.valid import damaged, headers
from tailrace.records.batch import BatchHeader, validate
from tailrace.records.compression import MAX_DECOMPRESSED_BYTES
from tailrace.records.entries import entries, plain_records

# What is looked at where others wait: less than having a thread do it costs (reading 200 records takes 0.3 ms).
BYTES_IN_HASTE: Final = 128 * 1024
_RECORDS_IN_HASTE: Final = 200
_PLAIN_BYTES_IN_HASTE: Final = 256 * 1024


def find(log: LocalLog, timestamp_ms: int | None, max_offset: int | None = None) -> TimestampOffset | None:
    """The first record below max_offset whose timestamp is timestamp_ms or later; for None with the largest one."""
    return _find(log, timestamp_ms, max_offset, WAIT)


def find_in_haste(log: LocalLog, timestamp_ms: int | None, max_offset: int) -> TimestampOffset | Needs | None:
    """The same at once; what it needs where it would wait for the disk or take long (background_lookup.py)."""
    try:
        return _find(log, timestamp_ms, max_offset, InHaste(BYTES_IN_HASTE))
    except Missing as missing:
        return missing.needs


def _find(log: LocalLog, timestamp_ms: int | None, max_offset: int | None, mode: ReadMode) -> TimestampOffset | None:
    start, log_end = log.log_start_offset, log.log_end_offset
    end = log_end if max_offset is None else min(max_offset, log_end)
    if timestamp_ms is None:
        return of_max_timestamp(log.segments, start, end, log_end, mode)
    return first_at_or_after(log.segments, timestamp_ms, start, end, mode)


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, end_offset: int, mode: ReadMode
) -> TimestampOffset | None:
    """The first record in [start_offset, end_offset) whose timestamp is timestamp_ms or later."""
    for segment in segments:
        if segment.base_offset >= end_offset:
            return None
        if max_timestamp(segment, mode) < timestamp_ms:
            continue
        from_offset = max(offset_before(segment, timestamp_ms, mode), start_offset)
        start = position_of(segment, from_offset, mode)
        for position, header in headers(segment, start, mode):
            if header.base_offset >= end_offset:
                return None
            if segment.holes and (hole := segment.hole_behind(start)) and hole.position < position:
                raise damaged(segment, hole)  # it may have been there
            if header.max_timestamp < timestamp_ms:
                validate(segment.read_batch(position, header, mode))
                continue
            for timestamp, offset in times_and_offsets(segment, position, header, mode):
                if timestamp >= timestamp_ms and start_offset <= offset < end_offset:
                    return TimestampOffset(timestamp, offset, header.partition_leader_epoch)
    return None


def times_and_offsets(
    segment: Segment, position: int, header: BatchHeader, mode: ReadMode
) -> Iterator[tuple[int, int]]:
    """(timestamp, offset) of a batch's records, one at a time: a few kilobytes may hold millions.

    Where its producer filled it with nonsense, just its first offset and newest time.
    """
    in_haste = mode.in_haste
    if in_haste and header.record_count > _RECORDS_IN_HASTE:
        raise segment.missing(position, position + header.size_bytes)
    batch = segment.read_batch(position, header, mode)
    validate(batch)  # CORRUPT_MESSAGE: what is damaged may name any time and offset
    base_offset, base_timestamp, newest = header.base_offset, header.base_timestamp, header.max_timestamp
    try:
        data = plain_records(header, batch, _PLAIN_BYTES_IN_HASTE if in_haste else MAX_DECOMPRESSED_BYTES)
        for entry in entries(data, header.record_count):
            timestamp = newest if header.is_log_append_time else base_timestamp + entry.timestamp_delta
            yield timestamp, base_offset + entry.offset_delta
    except ApiError:
        if in_haste:  # it may be no more than large
            raise segment.missing(position, position + header.size_bytes) from None
        yield newest, base_offset


def of_max_timestamp(
    segments: Sequence[Segment], start_offset: int, end_offset: int, log_end_offset: int, mode: ReadMode
) -> TimestampOffset | None:
    """The first record in [start_offset, end_offset) with the largest timestamp (KIP-734), also if that is -1: none."""
    newest = _newest(segments, start_offset, end_offset, log_end_offset, mode)
    found = first_at_or_after(segments, newest, start_offset, end_offset, mode)
    if found is None and newest >= 0:
        # Compaction keeps a producer's last batch with its time when all its records are gone: a close look is needed.
        newest = _newest(segments, start_offset, end_offset, -1, mode)
        if newest >= 0:
            found = first_at_or_after(segments, newest, start_offset, end_offset, mode)
    return found


def _newest(
    segments: Sequence[Segment], start_offset: int, end_offset: int, log_end_offset: int, mode: ReadMode
) -> int:
    """The largest timestamp in [start_offset, end_offset), -1 if there is none.

    Whole segments are believed by their indexes, which count batches that compaction has emptied; with log_end_offset
    -1 only headers are, of batches with records.
    """
    newest = -1
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    for segment, segment_end in zip(segments, ends, strict=True):
        if max_timestamp(segment, mode) <= newest or segment.base_offset >= end_offset:
            continue
        if start_offset <= segment.base_offset and segment_end <= end_offset and log_end_offset >= 0:
            newest = max_timestamp(segment)
            continue
        for position, header in headers(segment, position_of(segment, start_offset, mode), mode):
            if header.base_offset >= end_offset:
                break
            if not header.record_count:
                continue
            whole = start_offset <= header.base_offset and header.next_offset <= end_offset
            if header.max_timestamp > newest and not whole:
                for timestamp, offset in times_and_offsets(segment, position, header, mode):
                    if start_offset <= offset < end_offset:
                        newest = max(newest, timestamp)
            else:
                newest = max(newest, header.max_timestamp)
    return newest

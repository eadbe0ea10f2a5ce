"""A damaged segment: which of its batches are sound, and where what is not sound begins and ends.

The base offset and the length of a batch lie outside its CRC, as in Kafka, but batches follow one another: a batch ends
where the next begins, in bytes and in offsets. Readers notice when that is not so (sound.headers, search.position_of,
search.end_within), and only then is the whole segment walked from its beginning, which its name vouches for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from tailrace.errors import ApiError
from tailrace.log.read import WAIT, ReadMode
from tailrace.log.segment.batches import fits, raw_headers
from tailrace.log.segment.segment import Hole, Segment
from tailrace.log.segment.view import BackgroundScan, scanned, want
from tailrace.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    read_header,
    validate,
)

_SEARCHED_BYTES: Final = 1024 * 1024
_MAX_RELATIVE_OFFSET: Final = 2**31 - 1


def walk(
    segment: Segment,
    position: int,
    expected: int,
    ceiling: int | None,
    anchor: int | None = None,
    mode: ReadMode = WAIT,
) -> Iterator[tuple[int, BatchHeader] | Hole]:
    """The sound batches and the holes from position on, where a batch of offset expected or later begins.

    ceiling is the offset behind the segment's last batch, None where it is not known; anchor is where it should be.
    """
    while position < segment.size_bytes:
        last: BatchHeader | None = None
        for at, header in raw_headers(segment, position, mode):
            if last is not None:
                if header.base_offset < last.next_offset:
                    break
                yield position, last
                position, expected = at, last.next_offset
            if header.base_offset < expected:
                break
            last = header
        valid = _valid_at(segment, position, expected, ceiling, anchor)
        if valid is not None:
            yield position, valid
            position, expected = position + valid.size_bytes, valid.next_offset
            continue
        end, next_offset = _next_valid(segment, position, expected, ceiling)
        yield Hole(position, end, expected, next_offset)
        position, expected = end, next_offset


def examine(
    segment: Segment,
    mode: ReadMode = WAIT,
    *,
    suspected: bool = True,
    anchor: int | None = None,
    doubted: int | None = None,
) -> None:
    """Finds all that is wrong by walking the whole segment, and makes its indexes again from what is sound.

    anchor is where the last segment should end; suspected=False: nothing is wrong but what this finds, and the
    batch at `doubted` if its CRC is. For a read that does not wait another thread has to do it.
    """
    if scanned(segment) and segment.examined:
        return
    if not mode.waits:
        want(segment, BackgroundScan(segment, partial(examine, suspected=suspected, doubted=doubted)), mode)
    if doubted is not None:
        suspected = intact(segment, doubted) is None
    known = segment.indexes is not None
    segment.forget_indexes()
    holes: list[Hole] = []
    for found in walk(segment, 0, segment.base_offset, segment.end_offset, anchor, mode):
        if isinstance(found, Hole):
            holes.append(found)
        else:
            segment.note(found[1], found[0])
    segment.examined, segment.holes = True, tuple(holes)
    if not known:
        segment.indexes = None
    elif segment.end_offset is not None:
        segment.note_latest()
    if suspected or holes:
        segment.on_damage(segment)


def _header_at(segment: Segment, position: int) -> BatchHeader | None:
    data = segment.file.pread(HEADER_SIZE, position) if position + HEADER_SIZE <= segment.size_bytes else b""
    header = read_header(data) if len(data) == HEADER_SIZE else None
    return header if header is not None and fits(header, position, segment.size_bytes) else None


def intact(segment: Segment, position: int) -> BatchHeader | None:
    """The header of the batch at position if its CRC is right."""
    header = _header_at(segment, position)
    try:
        return None if header is None else validate(segment.read_batch(position, header))
    except ApiError:
        return None


def _valid_at(
    segment: Segment, position: int, expected: int, ceiling: int | None, anchor: int | None
) -> BatchHeader | None:
    """The header of the batch at position, unless it is that batch whose header is wrong."""
    header = _header_at(segment, position)
    highest = segment.base_offset + _MAX_RELATIVE_OFFSET + 1 if ceiling is None else ceiling
    if header is None or not expected <= header.base_offset < header.next_offset <= highest:
        return None
    following = _header_at(segment, position + header.size_bytes)
    if following is not None and following.base_offset >= header.next_offset:
        return header
    # One of the two is wrong. The CRC covers how many offsets a batch has, and goes wrong with its length.
    if intact(segment, position) is None:
        return None
    if header.base_offset == expected:
        return header
    # It begins later than it could: after a gap that compaction left, or by a flipped bit.
    if following is not None:
        return header if following.base_offset < expected else None  # what cannot be here at all is the wrong one
    behind = anchor if ceiling is None else ceiling
    if behind is None:
        return header
    implied = behind - _count(header)  # where it begins if nothing is missing behind it
    across = header.base_offset < behind < header.next_offset  # none is: of an anchor, too, a batch ends there
    flipped = across and implied >= expected and (implied ^ header.base_offset).bit_count() == 1
    return None if flipped or implied == expected else header


def may_follow(segment: Segment, position: int, header: BatchHeader, expected: int, gaps: bool) -> bool:
    """Whether the sound batch at position, which begins later than expected, may: its base offset has no CRC.

    What follows says so, the next segment's name if need be. Behind the last batch of all nothing does: where the log
    is not known to have gaps (of compaction, here or by a leader), one that a single flipped bit explains is none.
    """
    end = position + header.size_bytes
    following = _header_at(segment, end)
    if following is not None and following.base_offset < header.next_offset:
        # A page that a power cut took leaves the beginning of a batch that no flush had covered: that is no witness.
        torn = following.base_offset < expected or intact(segment, end) is None
        following = None if torn else following
    behind = segment.end_offset if following is None else following.base_offset
    if behind is None:
        return gaps or (header.base_offset ^ expected).bit_count() > 1
    return header.next_offset <= behind != expected + _count(header)


def _count(header: BatchHeader) -> int:
    return header.last_offset_delta + 1


def _next_valid(segment: Segment, position: int, expected: int, ceiling: int | None) -> tuple[int, int]:
    """(position, base offset) of the first sound batch behind a bad one; the segment's end if there is none."""
    highest = segment.base_offset + _MAX_RELATIVE_OFFSET if ceiling is None else ceiling - 1
    bad = _header_at(segment, position)
    if bad is not None:
        # Where only its base offset is wrong, its length tells; a batch may hold bytes that look like others.
        found = intact(segment, position + bad.size_bytes)
        if found is not None and expected < found.base_offset <= found.last_offset <= highest:
            return position + bad.size_bytes, found.base_offset
        # With a right CRC it ends where it says, whatever a torn write has left behind it.
        last = found is None and (ceiling is None or position + bad.size_bytes == segment.size_bytes)
        if last and intact(segment, position) is not None:
            return position + bad.size_bytes, expected + _count(bad) if ceiling is None else ceiling
    for at in _candidates(segment, position + 1, expected + 1, highest):
        found = intact(segment, at)
        if found is not None and expected < found.base_offset <= found.last_offset <= highest:
            return at, found.base_offset
    return segment.size_bytes, expected if ceiling is None else ceiling


def _candidates(segment: Segment, position: int, lowest: int, highest: int) -> Iterator[int]:
    """Where a batch of those offsets could begin: the high bytes of its base offset are known, and its magic."""
    low, high = lowest.to_bytes(8, "big"), max(lowest, highest).to_bytes(8, "big")
    known = next((count for count in range(8) if low[count] != high[count]), 8)
    pattern = re.compile(b"(?=" + re.escape(low[:known]) + b"[\\s\\S]{%d}\\x02)" % (16 - known))
    while position + HEADER_SIZE <= segment.size_bytes:
        data = segment.file.pread(_SEARCHED_BYTES + 16, position)
        for match in pattern.finditer(data):
            yield position + match.start()
        position += max(1, len(data) - 16)

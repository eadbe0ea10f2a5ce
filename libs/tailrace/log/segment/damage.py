"""A damaged segment: which of its batches are sound, and where what is not sound begins and ends.

The base offset and the length of a batch lie outside its CRC, as in Kafka, but batches follow one another: a batch ends
where the next begins, in bytes and in offsets. Readers notice when that is not so (Segment.headers, position_of,
end_within), and only then is the whole segment walked from its beginning, which its name vouches for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.errors import ApiError
from tailrace.log.read import NotCached, Slice
from tailrace.log.segment.background_scan import BackgroundScan
from tailrace.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    PLACE,
    BatchHeader,
    Bytes,
    corrupt,
    read_header,
    validate,
)

if TYPE_CHECKING:
    from tailrace.log.segment.segment import Segment

_NOTHING: Bytes = b""
_SEARCHED_BYTES: Final = 1024 * 1024
_MOST_LOOKED_AT: Final = 256  # a quarter of a millisecond
_MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class Hole(NamedTuple):
    """Bytes [position, end) of a segment that are no sound batch, in place of offsets [first_offset, next_offset)."""

    position: int
    end: int
    first_offset: int
    next_offset: int


def fits(header: BatchHeader, position: int, size_bytes: int) -> bool:
    """Whether that can be a batch at all, as far as its header says, in a segment of that size."""
    return (
        header[3] == MAGIC
        and HEADER_SIZE <= header.size_bytes <= size_bytes - position
        and header[0] >= 0
        and header[6] >= 0
    )


def walk(
    segment: Segment, position: int, expected: int, ceiling: int | None, anchor: int | None = None
) -> Iterator[tuple[int, BatchHeader] | Hole]:
    """The sound batches and the holes from position on, where a batch of offset expected or later begins.

    ceiling is the offset behind the segment's last batch, None where it is not known; anchor is where it should be.
    """
    while position < segment.size_bytes:
        last: BatchHeader | None = None
        for at, header in segment.raw_headers(position):
            if last is not None:
                if header.base_offset < last.next_offset:
                    break
                yield position, last
                position, expected = at, last.next_offset
            if header.base_offset < expected:
                break
            last = header
        sound = _sound_at(segment, position, expected, ceiling, anchor)
        if sound is not None:
            yield position, sound
            position, expected = position + sound.size_bytes, sound.next_offset
            continue
        end, next_offset = _next_sound(segment, position, expected, ceiling)
        yield Hole(position, end, expected, next_offset)
        position, expected = end, next_offset


def follow_one_another(segment: Segment, start: int, end: int, lowest: int) -> int | None:
    """How far batches of offset lowest or later fill [start, end), and what is behind them follows.

    None where they do not. No more than _MOST_LOOKED_AT of them are looked at: the event loop has others to serve.
    """
    size, chunk, first = segment.size_bytes, _NOTHING, start
    at, expected, left = start, lowest, _MOST_LOOKED_AT
    while at + HEADER_SIZE <= size:
        if at - first + HEADER_SIZE > len(chunk):
            first, chunk = at, segment._heads(at, at)
            if len(chunk) < HEADER_SIZE:
                break
        base_offset, length, magic, delta = PLACE.unpack_from(chunk, at - first)
        behind = at + length + LOG_OVERHEAD
        if magic != MAGIC or base_offset < 0 or delta < 0 or not at + HEADER_SIZE <= behind <= size:
            break
        if base_offset < expected:
            return None
        if at >= end or not left:
            return at if at <= end else None
        at, expected, left = behind, base_offset + delta + 1, left - 1
    whole = at == end == size and (segment.end_offset is None or expected <= segment.end_offset)
    return end if whole else None


def settle(segment: Segment, start: int, length: int, lowest: int, wait: bool) -> int:
    """How many of these bytes are known to be sound batches now; CORRUPT_MESSAGE if already the first is not.

    What was found sound is not looked at again. NotCached unless `wait`, or where the reader does not.
    """
    reader = segment.reader
    waits, reader.waits = reader.waits, reader.waits and wait
    try:
        return _settle(segment, start, length, lowest)
    except NotCached as cold:
        if not cold.piece.length:
            raise
        behind = cold.piece.position + cold.piece.length  # all of it at once
        closed = segment.end_offset is not None
        raise NotCached(Slice(segment.file, start, max(start + length, behind) - start, closed=closed)) from None
    finally:
        reader.waits = waits


def _settle(segment: Segment, start: int, length: int, lowest: int) -> int:
    end = start + length
    if not segment.holes:
        reached = end if segment.examined else follow_one_another(segment, start, end, lowest)
        if reached is not None:
            if start <= segment.sound_to and reached >= segment.sound_from:
                segment.sound_from = min(start, segment.sound_from)
                segment.sound_to = max(reached, segment.sound_to)
            else:
                segment.sound_from, segment.sound_to = start, reached
            return reached - start
        segment.examine()
    hole = segment.hole_behind(start)
    if hole is not None and hole.position <= start:
        raise damaged(segment, hole)
    return length if hole is None else min(end, hole.position) - start


def damaged(segment: Segment, hole: Hole) -> ApiError:
    """What is answered in place of a hole."""
    where = f"{segment.path('.log')} from {hole.position} to {hole.end}"
    return corrupt(f"offsets {hole.first_offset} to {hole.next_offset - 1} are damaged: {where}")


def examine(segment: Segment, *, suspected: bool = True, anchor: int | None = None, doubted: int | None = None) -> None:
    """Finds all that is wrong by walking the whole segment, and makes its indexes anew from what is sound.

    anchor is where the last segment should end; suspected=False: nothing is wrong but what this finds, and the
    batch at `doubted` if its CRC is. A reader who does not wait gets NotCached, for another thread has to do it.
    """
    if segment._walked() and segment.examined:
        return
    if not segment.reader.waits:
        view_examine = partial(examine, suspected=suspected, doubted=doubted)
        segment._have_walked(BackgroundScan(segment, view_examine))
    if doubted is not None:
        suspected = intact(segment, doubted) is None
    known = segment._indexes is not None
    segment.forget_indexes()
    holes: list[Hole] = []
    for found in walk(segment, 0, segment.base_offset, segment.end_offset, anchor):
        if isinstance(found, Hole):
            holes.append(found)
        else:
            segment.note(found[1], found[0])
    segment.examined, segment.holes = True, tuple(holes)
    if not known:
        segment._indexes = None
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


def _sound_at(
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
    told = behind - _count(header)  # where it begins if nothing is missing behind it
    across = header.base_offset < behind < header.next_offset  # none is: of an anchor, too, a batch ends there
    flipped = across and told >= expected and (told ^ header.base_offset).bit_count() == 1
    return None if flipped or told == expected else header


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


def _next_sound(segment: Segment, position: int, expected: int, ceiling: int | None) -> tuple[int, int]:
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

"""What a topic may have against single records of a client's batch (KIP-467), found without building a Record of any.

A few kilobytes of zstd can hold millions of records, or of headers: on_step is called every few thousand of them, and
may raise to end it, and no more than MOST_BLAMED are named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tailrace.errors import ApiError, ErrorCode
from tailrace.records.batch import BatchHeader
from tailrace.records.record import skip_headers
from tailrace.wire.varint import read_zigzag

MOST_BLAMED: Final = 1000
_STEP: Final = 4096
_2_TO_63: Final = 2**63


class Rules(NamedTuple):
    """Timestamps (ms) must be within [earliest_ms, latest_ms], or negative: none; keyed: a record must have a key.

    counted: offsets must count up.
    """

    earliest_ms: int
    latest_ms: int
    keyed: bool
    counted: bool


class RecordErrors(NamedTuple):
    """Which records, counted in their batch, break the rules; of each kind not more than MOST_BLAMED.

    max_timestamp: of the batch as its records say, where none is to blame.
    """

    outside: list[int]
    keyless: list[int]
    max_timestamp: int = -1


def record_errors(header: BatchHeader, data: bytes, rules: Rules, on_step: Callable[[], None]) -> RecordErrors:
    """Looks through the plain records of a batch; INVALID_RECORD (as in Kafka) where they do not fit it."""
    blamed = RecordErrors([], [])
    position, newest = 0, -_2_TO_63
    try:
        for first in range(0, header.record_count, _STEP):
            on_step()
            indices = range(first, min(first + _STEP, header.record_count))
            position, delta = _step(header, data, position, indices, rules, blamed, on_step)
            newest = max(newest, delta)
            if max(map(len, blamed[:2])) > MOST_BLAMED:
                return RecordErrors(blamed.outside[:MOST_BLAMED], blamed.keyless[:MOST_BLAMED])
    except (IndexError, UnicodeDecodeError):
        raise _invalid("a record does not fit its batch") from None
    if position != len(data):
        raise _invalid("bytes are left after the last record")
    newest = max(-1, header.base_timestamp + newest)  # none is -1, as in Kafka
    return blamed._replace(max_timestamp=newest if newest < _2_TO_63 else header.max_timestamp)


def _step(
    header: BatchHeader,
    data: bytes,
    position: int,
    indices: range,
    rules: Rules,
    blamed: RecordErrors,
    on_step: Callable[[], None],
) -> tuple[int, int]:
    """Looks at these records, the first of which begins at position; where the next one begins, the latest delta."""
    size, read, counted = len(data), read_zigzag, rules.counted
    earliest, latest = rules.earliest_ms - header.base_timestamp, rules.latest_ms - header.base_timestamp
    zero, newest = -header.base_timestamp, -_2_TO_63
    outside, keyless, keyed = blamed.outside, blamed.keyless, rules.keyed
    for index in indices:
        # As read_zigzag, whose calls would take most of the time, where it is one byte.
        length = data[position]
        if length < 0x80:
            length, position = (length >> 1) ^ -(length & 1), position + 1
        else:
            length, position = read(data, position)
        end = position + length
        if length < 0 or end > size:
            raise IndexError
        delta = data[position + 1]  # behind one byte of attributes, unused
        if delta < 0x80:
            delta, position = (delta >> 1) ^ -(delta & 1), position + 2
        else:
            delta, position = read(data, position + 1)
        start = position
        while data[position] >= 0x80 and position < end:  # the offset's, an int
            position += 1
        if position - start > 4 or (counted and read(data, start)[0] != index):
            raise IndexError
        newest = delta if delta > newest else newest  # max() would be a call
        if delta > latest or zero <= delta < earliest:
            outside.append(index)
        length, position = read(data, position + 1)
        if length > 0:
            position += length
        elif length < 0:
            if length != -1:
                raise IndexError
            if keyed:
                keyless.append(index)
        length, position = read(data, position)
        if length > 0:
            position += length
        elif length < -1:
            raise IndexError
        count = data[position]
        position += 1
        if count:
            count, position = read(data, position - 1)
            while count > _STEP:
                position = skip_headers(data, position, end, _STEP)
                count -= _STEP
                on_step()
            position = skip_headers(data, position, end, count)
        if position != end:
            raise IndexError
    return position, newest


def _invalid(message: str) -> ApiError:
    """CORRUPT_MESSAGE would have its producer send the same again and again."""
    return ApiError(ErrorCode.INVALID_RECORD, message)

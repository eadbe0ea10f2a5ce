"""Whether the three indexes of a segment agree with its batches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

from tailrace.inspect import files
from tailrace.inspect.findings import BatchFacts, Finding, Verified
from tailrace.log.segment import transactions
from tailrace.log.segment.index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from tailrace.log.segment.transaction_index import TRANSACTION_INDEX_SUFFIX, TRANSACTION_SUMS_SUFFIX, sums_agree
from tailrace.records.batch import Bytes

_REBUILT: Final = "stop the broker and remove the file: it is rebuilt from the segment at the next start"
_REBUILT_IF_DAMAGED: Final = "stop the broker and `truncate -s 1` the file: the next start rebuilds what is damaged"
_REBUILT_AT_START: Final = "the next start rebuilds both from the segment"
_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")


def _index_bytes(path: Path, entry: Struct, writing: bool) -> Bytes | None:
    """The file without the zeros that Kafka's open index ends in; None if it is not there."""
    try:
        data = files.content(path)
    except FileNotFoundError:
        return None
    if writing and len(data) and not any(memoryview(data)[-entry.size :]):
        end = len(bytes(data).rstrip(b"\0"))
        return memoryview(data)[: -(-end // entry.size) * entry.size]
    return data


def offset_index(log: Path, base: int, batches: list[BatchFacts], writing: bool) -> Iterator[Finding]:
    """Every entry must lead to a batch and not past what it says."""
    path = log.with_suffix(INDEX_SUFFIX)
    data = _index_bytes(path, _OFFSET_ENTRY, writing)
    if data is None:
        return  # rebuilt at the next start
    if len(data) % _OFFSET_ENTRY.size:
        yield Finding(path, "ends within an entry", _REBUILT)
        return
    by_position = {batch.position: batch for batch in batches}
    ends = {batch.last_offset for batch in batches}
    before = (-1, -1)
    for relative, position in _OFFSET_ENTRY.iter_unpack(data):
        batch = by_position.get(position)
        # A follower may have indexed several batches that it appended at once by the first's place and the last's end.
        if batch is None or base + relative < batch.last_offset or base + relative not in ends:
            yield Finding(path, f"offset {base + relative} is not at {position} of the segment", _REBUILT)
            return
        if relative <= before[0] or position <= before[1]:
            yield Finding(path, f"offset {base + relative} at {position} is out of order", _REBUILT)
            return
        before = relative, position


def time_index(log: Path, base: int, batches: list[BatchFacts], writing: bool) -> Iterator[Finding]:
    """Every entry must say the newest timestamp up to its offset."""
    path = log.with_suffix(TIME_INDEX_SUFFIX)
    data = _index_bytes(path, _TIME_ENTRY, writing)
    if data is None:
        return
    if len(data) % _TIME_ENTRY.size:
        yield Finding(path, "ends within an entry", _REBUILT)
        return
    starts = [batch.base_offset for batch in batches]
    newest: list[int] = []
    for batch in batches:
        newest.append(max(batch.max_timestamp, newest[-1] if newest else -1))
    before = (-1, -1)
    for timestamp, relative in _TIME_ENTRY.iter_unpack(data):
        at = bisect_right(starts, base + relative) - 1
        holds = at >= 0 and base + relative <= batches[at].last_offset
        if not holds or batches[at].max_timestamp != timestamp or newest[at] != timestamp:
            yield Finding(path, f"{timestamp} is not the newest timestamp up to offset {base + relative}", _REBUILT)
            return
        if timestamp <= before[0] or relative <= before[1]:
            yield Finding(path, f"{timestamp} at offset {base + relative} is out of order", _REBUILT)
            return
        before = timestamp, relative


def _sums(log: Path) -> bytes:
    try:
        return log.with_suffix(TRANSACTION_SUMS_SUFFIX).read_bytes()
    except FileNotFoundError:
        return b""


def transaction_index(log: Path, base: int, found: Verified, writing: bool) -> Iterator[Finding]:
    """Every entry must end at an abort marker of its producer, and every abort whose records are there have one."""
    path = log.with_suffix(TRANSACTION_INDEX_SUFFIX)
    try:
        content = files.content(path)
        entries = transactions.decode(content)
        if not sums_agree(content, _sums(log)):
            yield Finding(path, f"differs from what {TRANSACTION_SUMS_SUFFIX} says of its entries", _REBUILT_AT_START)
            return
    except FileNotFoundError:
        entries = []
    except transactions.DamagedIndex as error:
        yield Finding(path, str(error), _REBUILT_IF_DAMAGED)
        return
    missing = found.aborted.keys() - {entry.last_offset for entry in entries}
    if missing and not writing:
        what = f"lacks the abort of producer {found.aborted[min(missing)]} at offset {min(missing)}"
        yield Finding(path, what, _REBUILT_IF_DAMAGED)
        return
    for entry in entries:
        if found.aborts.get(entry.last_offset) != entry.producer_id or entry.last_offset < base:
            what = f"producer {entry.producer_id} aborted nothing at offset {entry.last_offset}"
        elif not 0 <= entry.last_stable_offset <= entry.last_offset + 1:
            # It may lie before the first offset: where an older transaction is open.
            what = f"the last stable offset {entry.last_stable_offset} lies behind the marker at {entry.last_offset}"
        else:
            continue
        yield Finding(path, what, _REBUILT_IF_DAMAGED)
        return

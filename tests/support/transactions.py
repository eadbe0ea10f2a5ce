"""Transactions in a log: batches and markers as a coordinator writes them, and what a consumer makes of a read."""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from support.logs import NOW
from tailrace.log.log import Log, LogAppendResult
from tailrace.log.segment.transactions import marker_type
from tailrace.records.batch import BatchHeader, Bytes, read_header, split
from tailrace.records.markers import ABORT
from tailrace.records.record import Record, build, iterate

_KEY, _VALUE = Struct(">hh"), Struct(">hi")


def data_batch(producer_id: int, *values: bytes, epoch: int = 0) -> bytearray:
    """Records of a transaction, as a transactional offset commit is written: its sequence numbers say nothing."""
    records = [Record(timestamp=NOW, key=b"k", value=value) for value in values or (b"v",)]
    return build(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)


def marker_batch(producer_id: int, kind: int, *, epoch: int = 0, coordinator_epoch: int = 0) -> bytearray:
    record = Record(timestamp=NOW, key=_KEY.pack(0, kind), value=_VALUE.pack(0, coordinator_epoch))
    return build([record], producer_id=producer_id, producer_epoch=epoch, transactional=True, control=True)


def write(log: Log, *batches: bytearray) -> list[LogAppendResult]:
    """Appends them with one call, as a coordinator; all must be taken."""
    answers = log.append(batches, 0, NOW, from_client=False)
    assert not any(answer.error_code for answer in answers), answers
    return answers


class Seen(NamedTuple):
    """One batch of a log."""

    header: BatchHeader
    marker: int | None
    values: tuple[bytes | None, ...]


def batches(data: Bytes) -> Iterable[Seen]:
    for batch in split(data):
        header = read_header(batch)
        values = () if header.is_control else tuple(record.value for record in iterate(batch))
        yield Seen(header, marker_type(batch, header), values)


def committed_by(read: Iterable[Seen], aborted: list[tuple[int, int]]) -> list[tuple[int, bytes | None]]:
    """The (offset, value) that a consumer hands out of a read, by what it was told of aborts, as Java's does it."""
    told, dropped = sorted(aborted, key=lambda pair: pair[1]), set()
    handed: list[tuple[int, bytes | None]] = []
    for header, marker, values in read:
        while told and told[0][1] <= header.last_offset:
            dropped.add(told.pop(0)[0])
        if header.is_control:
            if marker == ABORT:
                dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            handed += [(header.base_offset + index, value) for index, value in enumerate(values)]
    return handed


def read_committed(log: Log, high_watermark: int, max_bytes: int, start: int) -> list[tuple[int, bytes | None]]:
    """All that a consumer at read_committed gets from start on, fetch by fetch; each fetch stands by itself."""
    end, offset = log.last_stable_offset(high_watermark), start
    handed: list[tuple[int, bytes | None]] = []
    while offset < end:
        piece = log.read(offset, max_bytes, end)
        read = list(batches(piece.read()))
        if not read:
            break
        assert read[-1].header.next_offset <= piece.next_offset <= end
        found = committed_by(read, log.aborted_transactions(offset, piece))
        handed += [(at, value) for at, value in found if at >= offset]
        offset = piece.next_offset
    return handed


class Expected(NamedTuple):
    """What must come out of a list of batches."""

    last_stable_offset: int
    committed: list[tuple[int, bytes | None]]


def expected(log: Iterable[Seen], high_watermark: int) -> Expected:
    """By looking at all the batches from the first: the simple way, without any index."""
    opened: dict[int, list[Seen]] = {}
    undecided: list[int] = []
    rows: list[tuple[int, bytes | None]] = []
    for seen in log:
        header, marker, values = seen
        if header.is_transactional and not header.is_control:
            opened.setdefault(header.producer_id, []).append(seen)
        elif marker is not None:
            theirs = opened.pop(header.producer_id, [])
            if theirs and header.base_offset >= high_watermark:
                undecided.append(theirs[0].header.base_offset)
            if marker != ABORT:
                rows += [(one.header.base_offset + n, value) for one in theirs for n, value in enumerate(one.values)]
        elif not header.is_control:
            rows += [(header.base_offset + index, value) for index, value in enumerate(values)]
    undecided += [theirs[0].header.base_offset for theirs in opened.values()]
    stable = min([high_watermark, *undecided])
    return Expected(stable, sorted(row for row in rows if row[0] < stable))


def all_batches(log: Log) -> list[Seen]:
    found: list[Seen] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found += batches(log.read(offset, 100_000).read())
        offset = found[-1].header.next_offset
    return found

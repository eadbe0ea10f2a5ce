"""However what comes is cut, records are counted by their heads, and none is begun beyond what was asked for."""

from __future__ import annotations

import random

import pytest

from tailrace.net.tls.record_heads import HEAD_BYTES, RecordHeads

SIZES = (0, 1, 22, 16_401, 3, 300)
RECORDS = b"".join(b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size) for size in SIZES * 3)


@pytest.mark.parametrize("seed", range(20))
def test_records_are_counted_once_in_whatever_pieces_they_come(seed: int) -> None:
    chance, heads = random.Random(seed), RecordHeads()
    at = taken = counted = 0
    rest = b""
    while at < len(RECORDS) or len(rest) >= HEAD_BYTES:
        step = chance.choice([1, 4, 5, 100, 20_000])
        rest, at = rest + RECORDS[at : at + step], min(at + step, len(RECORDS))
        size, begun = heads.cut(rest, chance.choice([1, 2, 50]), chance.choice([1, 1000, 1 << 20]))
        rest, taken, counted = rest[size:], taken + size, counted + begun
    assert not rest and taken == len(RECORDS) and counted == len(SIZES) * 3


def test_no_more_records_are_begun_than_asked_for() -> None:
    first = HEAD_BYTES + SIZES[0] + HEAD_BYTES + SIZES[1]
    assert RecordHeads().cut(RECORDS, 2, len(RECORDS)) == (first, 2)
    assert RecordHeads().cut(RECORDS, 50, first) == (first, 2)
    assert RecordHeads().cut(RECORDS[: HEAD_BYTES - 1], 2, 100) == (0, 0)

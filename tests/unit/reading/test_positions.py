"""Positions and partitions as texts."""

from __future__ import annotations

import pytest

from tailrace.reading.positions import parse, parse_partitions, written


def test_positions_are_read_as_they_were_written() -> None:
    positions = {1: 5, 0: 2**62}
    assert written(positions) == f"0:{2**62},1:5"
    assert parse(written(positions), 2) == positions


@pytest.mark.parametrize("text", ["", "1", "1:", ":1", "a:1", "1:-1", "0:1,", "0:1,1:1,2:1", "0:\u0661"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PARTITION:OFFSET"):
        parse(text, 2)


def test_partitions_are_numbers_and_ranges() -> None:
    assert parse_partitions("7,0-2,1", 4) == [0, 1, 2, 7]


@pytest.mark.parametrize("text", ["", "a", "-1", "2-1", "0-9999999", "0,1,2,3,4", "0-2,5-7"])
def test_what_is_no_partition_or_too_many_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="partitions:"):
        parse_partitions(text, 4)

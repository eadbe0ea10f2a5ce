"""Where a reader begins: kcat's spellings, and the offset that each means in a log."""

from __future__ import annotations

import pytest

from tailrace.reading.start import EARLIEST, LATEST, Start, first_offset, parse_start, parse_time


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", EARLIEST),
        ("beginning", EARLIEST),
        ("latest", LATEST),
        ("end", LATEST),
        ("0", Start(offset=0)),
        ("42", Start(offset=42)),
        ("-10", Start(back=10)),
        ("s@1700000000000", Start(timestamp=1_700_000_000_000)),
        ("s@2023-11-14T22:13:20+00:00", Start(timestamp=1_700_000_000_000)),
    ],
)
def test_every_spelling_is_known(text: str, start: Start) -> None:
    assert parse_start(text) == start


@pytest.mark.parametrize(
    "text", ["", "x", "1.5", "--1", "s@", "s@yesterday", "s@-5", "9" * 19, "9" * 5000, "1_000", "٣"]
)
def test_what_means_nothing_is_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected "):
        parse_start(text)


def test_times_before_1970_are_refused() -> None:
    with pytest.raises(ValueError, match="expected milliseconds"):
        parse_time("1969-12-31T00:00:00+00:00")


@pytest.mark.parametrize(
    ("start", "at", "offset"),
    [
        (EARLIEST, 10, 10),
        (LATEST, 30, 30),
        (Start(offset=10), 0, 10),
        (Start(offset=30), 0, 30),
        (Start(back=5), 30, 25),
        (Start(back=500), 30, 10),
        (Start(timestamp=77), 12, 12),
        (Start(timestamp=77), -1, 30),
    ],
)
def test_a_start_is_an_offset_of_the_log(start: Start, at: int, offset: int) -> None:
    assert first_offset(start, at, earliest=10, latest=30) == offset


@pytest.mark.parametrize("offset", [9, 31])
def test_an_offset_outside_of_the_log_is_refused_with_what_the_log_has(offset: int) -> None:
    with pytest.raises(ValueError, match="10 to 30"):
        first_offset(Start(offset=offset), 0, earliest=10, latest=30)

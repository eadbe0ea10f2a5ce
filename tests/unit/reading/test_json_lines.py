"""Records as JSON lines: what one command prints the other takes, whatever the bytes are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.reading.json_lines import NewRecord, read, written
from tailrace.records.record import Record

PARTS = st.none() | st.binary()
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(PARTS, PARTS, st.lists(st.tuples(TEXT, PARTS)), st.integers(0, 2**63 - 1))
def test_a_record_comes_back_as_it_was(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp: int
) -> None:
    line = written("t", 3, Record(7, timestamp, key, value, tuple(headers)))
    assert "\n" not in line
    assert read(line.encode()) == NewRecord(key, value, tuple(headers), 3, timestamp)


def test_text_is_text_and_other_bytes_are_base64() -> None:
    line = json.loads(written("t", 0, Record(1, 2, "größe".encode(), b"\xff", (("h", None),))))
    assert line == {
        "topic": "t",
        "partition": 0,
        "offset": 1,
        "timestamp": 2,
        "key": "größe",
        "value": {"base64": "/w=="},
        "headers": [{"name": "h", "value": None}],
    }


def test_what_is_left_out_is_null_or_the_producers_choice() -> None:
    assert read(b'{"value": "x"}') == NewRecord(None, b"x")
    assert read(b"{}") == NewRecord(None, None)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"x",
        b"[]",
        b"[" * 100_000,
        b"\xff",
        b'{"vaule": "x"}',
        b'{"value": 7}',
        b'{"value": {"base64": "?"}}',
        b'{"value": {"base64": 7}}',
        b'{"value": "\\ud800"}',
        b'{"headers": {"a": "b"}}',
        b'{"headers": [{"name": "a"}]}',
        b'{"headers": [{"name": 1, "value": "x"}]}',
        b'{"headers": [{"name": "\\ud800", "value": "x"}]}',
        b'{"partition": -1}',
        b'{"partition": true}',
        b'{"timestamp": 1.5}',
        b'{"timestamp": 9223372036854775808}',
    ],
)
def test_what_is_no_record_is_refused_in_words(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"expected|not JSON|is a string"):
        read(line)

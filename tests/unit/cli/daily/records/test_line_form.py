"""What a line that is typed means: keys, nulls, headers, JSON."""

from __future__ import annotations

import pytest

from tailrace.cli.daily.records.line_form import LineForm
from tailrace.reading.json_lines import NewRecord


@pytest.mark.parametrize(
    ("form", "line", "record"),
    [
        (LineForm(), b"a:1\n", NewRecord(None, b"a:1")),
        (LineForm(), b"", NewRecord(None, b"")),
        (LineForm(), b"a\r\n", NewRecord(None, b"a\r")),
        (LineForm(b":"), b"a:1:2\n", NewRecord(b"a", b"1:2")),
        (LineForm(b":"), b"none\n", NewRecord(None, b"none")),
        (LineForm(b"::"), b"a::1", NewRecord(b"a", b"1")),
        (LineForm(b":", key=b"k"), b"1", NewRecord(b"k", b"1")),
        (LineForm(b":", key=b"k"), b"a:1", NewRecord(b"a", b"1")),
        (LineForm(b":"), b":", NewRecord(b"", b"")),
        (LineForm(b":", nulls=True), b":", NewRecord(None, None)),
        (LineForm(nulls=True, key=b"k"), b"\n", NewRecord(b"k", None)),
        (LineForm(headers=(("h", b"1"),)), b"x", NewRecord(None, b"x", (("h", b"1"),))),
        (LineForm(as_json=True), b'{"key": "a", "partition": 2}\n', NewRecord(b"a", None, (), 2)),
    ],
)
def test_a_line_is_a_record(form: LineForm, line: bytes, record: NewRecord) -> None:
    assert form.of_line(line) == record


def test_a_line_that_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        LineForm(as_json=True).of_line(b"a\n")

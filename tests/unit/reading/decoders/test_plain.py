"""Bytes as JSON can say them: what they are by themselves, and what was wanted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.reading.decoders.plain import Encoding, shown


@pytest.mark.parametrize(
    ("content", "encoding", "expected"),
    [
        (b'{"a": [1, null]}', Encoding.AUTO, ("JSON", {"a": [1, None]}, 16)),
        (b"plain", Encoding.AUTO, ("STRING", "plain", 5)),
        (b"", Encoding.AUTO, ("STRING", "", 0)),
        (b"\xff\x00", Encoding.AUTO, ("BINARY", "/wA=", 2)),
        (b"17", Encoding.TEXT, ("STRING", "17", 2)),
        (b"\xff", Encoding.TEXT, ("BINARY", "/w==", 1)),
        (b"17", Encoding.JSON, ("JSON", 17, 2)),
        (b"plain", Encoding.JSON, ("BINARY", "cGxhaW4=", 5)),
        (b"\x00\xab", Encoding.HEX, ("HEX", "00ab", 2)),
        (b"17", Encoding.BASE64, ("BINARY", "MTc=", 2)),
        (b"NaN", Encoding.AUTO, ("STRING", "NaN", 3)),
        (b"1e999", Encoding.AUTO, ("STRING", "1e999", 5)),
        (rb'"\ud800"', Encoding.AUTO, ("STRING", r'"\ud800"', 8)),
        (b"9" * 5_000, Encoding.AUTO, ("STRING", "9" * 5_000, 5_000)),  # more digits than Python takes
    ],
)
def test_bytes_are_shown_as_what_they_are(content: bytes, encoding: Encoding, expected: tuple[object, ...]) -> None:
    assert shown(content, encoding) == expected


def test_json_that_is_too_deep_for_an_answer_is_text() -> None:
    kinds = set()
    for depth in range(80, 3_000, 7):
        found = shown(b"[" * depth + b"]" * depth)
        json.dumps({"data": [{"value": found._asdict()}]})
        kinds.add(found.type)
    assert kinds == {"JSON", "STRING"}


@given(st.binary() | st.text().map(str.encode), st.sampled_from(Encoding))
def test_any_bytes_can_be_written_as_json(content: bytes, encoding: Encoding) -> None:
    found = shown(content, encoding)
    assert found.size == len(content)
    assert json.dumps(found, ensure_ascii=False, allow_nan=False).encode()

"""kcat's format strings: each field and escape, null, and what is refused."""

from __future__ import annotations

import pytest

from tailrace.reading.record_format import RecordFormat
from tailrace.records.record import Record

RECORD = Record(7, 1_700_000_000_000, b"k", b"value \xff", (("a", b"1"), ("b", None)))
EMPTY = Record(8, -1, None, None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("%s", b"value \xff"),
        ("%S", b"7"),
        ("%k|%K", b"k|1"),
        ("%T", b"1700000000000"),
        ("%h", b"a=1,b=NULL"),
        ("%t-%p@%o", b"t-3@7"),
        ("100%%", b"100%"),
        ("a\\tb\\n\\r\\0\\\\", b"a\tb\n\r\0\\"),
        ("\\x41\\xfe", b"A\xfe"),
        ("größe %o", "größe 7".encode()),
        ("", b""),
    ],
)
def test_every_field_and_every_escape(text: str, shown: bytes) -> None:
    assert RecordFormat(text).render("t", 3, RECORD) == shown


def test_null_is_empty_and_has_the_size_minus_one() -> None:
    assert RecordFormat("[%k] %K [%s] %S [%h]").render("t", 0, EMPTY) == b"[] -1 [] -1 []"


@pytest.mark.parametrize("text", ["%x", "%", "a%", "\\q", "\\", "\\x4", "%é"])
def test_what_is_unknown_is_refused_with_what_is_known(text: str) -> None:
    with pytest.raises(ValueError, match="expected "):
        RecordFormat(text)

"""Control characters of clients' names, which a log and a terminal show as escapes."""

from __future__ import annotations

import pytest

from tailrace.printable import printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("billing", "billing"),
        ("größe 注文 🍎", "größe 注文 🍎"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\rb", "a\\rb"),
        ("a\nlevel=error", "a\\nlevel=error"),
        ("\x9b31m", "\\x9b31m"),
        ("\x7f\x00", "\\x7f\\x00"),
        ("txt.\u202eexe", "txt.\\u202eexe"),
        ("\u2066x\u2069\u200f\u061c", "\\u2066x\\u2069\\u200f\\u061c"),
        ("a\u2028b", "a\\u2028b"),
        ("\udcff", "\\udcff"),
        ("\u200d\xa0", "\u200d\xa0"),
    ],
)
def test_what_moves_a_cursor_or_turns_the_order_is_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_stay_lines_where_there_are_several() -> None:
    assert printable_lines("a\tb\nc\x1b\r\n") == "a\\tb\nc\\x1b\\r\n"

"""Text of clients as a log or a terminal may show it. Pure.

A client chooses its id, its group's id and more, up to 32 KB of any characters: some move a terminal's cursor or change
its title (C0 and C1 controls), begin a new line of a log, or turn the order of what stands around them (bidi controls).
"""

from __future__ import annotations

from typing import Final

_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_CONTROLS: Final = (
    *range(0x20),  # C0, with ESC, CR and the bell
    *range(0x7F, 0xA0),  # DEL and C1
    0x061C,  # bidi: marks, embeddings, overrides, isolates
    0x200E,
    0x200F,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    0x2028,  # separators of lines and paragraphs
    0x2029,
    *range(0xD800, 0xE000),  # lone surrogates, which no output can encode
)


def _escaped(code: int) -> str:
    return _NAMED.get(chr(code)) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


_ESCAPES: Final = {code: _escaped(code) for code in _CONTROLS}
_ESCAPES_OF_LINES: Final = {code: text for code, text in _ESCAPES.items() if chr(code) != "\n"}


def printable(text: str) -> str:
    """The text on one line, with an escape, as Python writes it, for each control character."""
    return text if text.isprintable() else text.translate(_ESCAPES)


def printable_lines(text: str) -> str:
    """As printable, for text of several lines: line feeds stay."""
    return text if text.isprintable() else text.translate(_ESCAPES_OF_LINES)

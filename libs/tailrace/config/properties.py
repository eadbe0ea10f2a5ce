"""Java's .properties syntax (java.util.Properties.load), for server.properties files as Kafka's users have them."""

from __future__ import annotations

from collections.abc import Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"


def parse(text: str) -> dict[str, tuple[str, int]]:
    """Returns key -> (value, line number); a key given twice keeps its last value, as in Java. Raises ValueError."""
    found: dict[str, tuple[str, int]] = {}
    for line, number in _logical_lines(text):
        end, value_at = _split(line)
        found[_unescape(line[:end], number)] = (_unescape(line[value_at:], number), number)
    return found


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Joins continued lines; drops blank lines and comments (a comment is never continued)."""
    pending, started = "", 0
    for number, natural in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = natural.lstrip(_BLANK)
        if not pending and (not line or line[0] in "#!"):
            continue
        started = started if pending else number
        pending += line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = pending[:-1]
            continue
        yield pending, started
        pending = ""
    if pending:
        yield pending, started


def _split(line: str) -> tuple[int, int]:
    """Where the key ends and the value begins: at the first unescaped `=`, `:` or blank."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    value_at = end
    while value_at < len(line) and line[value_at] in _BLANK:
        value_at += 1
    if value_at < len(line) and line[value_at] in "=:":
        value_at += 1
    while value_at < len(line) and line[value_at] in _BLANK:
        value_at += 1
    return end, value_at


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\" or at + 1 == len(text):
            out.append(text[at])
            at += 1
            continue
        mark = text[at + 1]
        at += 2
        if mark != "u":
            out.append(_ESCAPES.get(mark, mark))
            continue
        digits = text[at : at + 4]
        try:
            out.append(chr(int(digits, 16)) if len(digits) == 4 else chr(-1))
        except ValueError:
            raise ValueError(f"line {number} has a malformed \\u escape: \\u{digits}") from None
        at += 4
    return "".join(out)

"""The part of CEL whose evaluation has a known bound: expressions without loops that copy little. Pure.

It is read word by word, and completely: what is no word of this part is refused, as comments, raw strings and strings
in three quotes, which hide from a search what the binding's parser sees. A name before a bracket is a call, and only
calls of the table are allowed: all others may be loops (`all`, `exists`, `map` ...). A use of a part of the record may
copy it, each `+` copies what is before it, and a pattern is compiled for a record.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest
from typing import Final, NamedTuple

# Of CEL's standard definitions, those of the binding.
FUNCTIONS: Final = frozenset(
    {
        *("bytes", "contains", "double", "duration", "endsWith", "has", "int", "matches", "size", "startsWith"),
        *("string", "timestamp", "type", "uint"),
        *("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds"),
        *("getMinutes", "getMonth", "getSeconds"),
    }
)
# How often there may be what is costly: names of what is in a record, and these words.
MOST: Final[Mapping[str, int]] = {"names": 16, "+": 4, "matches": 4}
_ESCAPE: Final = r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
_WORD: Final = re.compile(
    rf"""[ \t\r\n]+
    |(?P<string>b?(?:"(?:{_ESCAPE}|[^"\\\r\n])*"|'(?:{_ESCAPE}|[^'\\\r\n])*')(?!["']))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*(?!["'A-Za-z0-9_]))
    |(?P<number>(?:0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)u?(?!["'A-Za-z0-9_]))
    |(?P<sign>&&|\|\||[=!<>]=|/(?!/)|[-+*%!<>?:,.()\[\]{{}}])""",
    re.VERBOSE,
)


class _Word(NamedTuple):
    kind: str
    text: str
    place: int


def fault_in(expression: str, parts: Collection[str]) -> str | None:
    """Why and where an expression is not of this part of CEL; parts: the names of what is in a record."""
    counts: Counter[str] = Counter()
    words = list(_words(expression))
    for word, after in zip_longest(words, words[1:]):
        if not word.kind:
            return f"{word.text[:1]} at {word.place}: not of the part of CEL that a service evaluates"
        is_call = word.kind == "name" and after is not None and after.text == "("
        if is_call and word.text not in FUNCTIONS:
            return (
                f"{word.text} at {word.place}: a service evaluates no loops, and of functions "
                f"{', '.join(sorted(FUNCTIONS))}"
            )
        if word.kind in ("name", "sign"):
            costly = "names" if word.text in parts else word.text
            counts[costly] += 1
            if counts[costly] > MOST.get(costly, len(words)):
                return f"{word.text} at {word.place}: a service evaluates {MOST[costly]} {costly} at most"
    return None


def _words(expression: str) -> Iterator[_Word]:
    """The last one is of no kind where the expression has what is no word."""
    place = 0
    while place < len(expression):
        found = _WORD.match(expression, place)
        if found is None:
            yield _Word("", expression[place:], place + 1)
            return
        if found.lastgroup is not None:
            yield _Word(found.lastgroup, found[0], place + 1)
        place = found.end()

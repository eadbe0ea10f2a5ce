"""A default that a page tells of a config key is the key's default, in whatever unit the page tells it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from support.pages import WRITTEN, complaints, name, pages
from tailrace.config.definitions import DEFINITIONS, TOPIC_DEFINITIONS

PAGES = [page for page in pages() if name(page) not in WRITTEN]
KNOWN = {**DEFINITIONS, **TOPIC_DEFINITIONS}
_MS = {"ms": 1, "s": 1000, "second": 1000, "min": 60_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_BYTES = {"bytes": 1, "byte": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_OF_KEY = {"ms": 1, "seconds": 1000, "minutes": 60_000, "hours": 3_600_000}  # the unit is the last word of a key
_NUMBER = r"([\d,]+(?:\.\d+)?)(?: ([A-Za-z]+))?"
_BRACKETS = re.compile(rf"`([a-z]+(?:\.[a-z]+)+)`\s+\({_NUMBER}(?=[);,])")
_CELL = re.compile(r"(?:^|, )`([a-z]+(?:\.[a-z]+)+)`(?: \(.*\))?$")


def told(text: str) -> Iterator[tuple[str, str, str]]:
    """(key, number, unit): `key` (30 s) in a sentence, and the column "default" of a table of keys."""
    yield from _BRACKETS.findall(text)
    column = 0
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if "default" in cells:
            column = cells.index("default")
        elif not cells:
            column = 0
        elif column and len(cells) > column and (key := _CELL.search(cells[0])):
            yield from ((key[1], *found) for found in re.findall(rf"^{_NUMBER}(?= |$)", cells[column]))


def wrong(key: str, number: str, unit: str) -> bool:
    """Whether the key has another default; a unit that is none of time or memory counts things."""
    value, word = float(number.replace(",", "")), unit.lower()
    definition = KNOWN[key]
    default = definition.default
    if word.removesuffix("s") in _MS or word in _MS:
        value *= _MS.get(word) or _MS[word.removesuffix("s")]
        default = float(str(default)) * _OF_KEY[key.rpartition(".")[2]]
    elif word in _BYTES:
        value *= _BYTES[word]
    return default is None or float(str(default)) != value


def test_the_defaults_that_a_page_tells_are_those_of_the_keys() -> None:
    assert complaints(PAGES, lambda text: [one for one in told(text) if one[0] in KNOWN and wrong(*one)]) == {}


def test_a_wrong_default_is_found_in_a_sentence_and_in_a_table() -> None:
    page = """It waits for `replica.lag.time.max.ms` (30 s), or `replica.lag.time.max.ms` (20 s).

| setting | default | what |
|---|---|---|
| size of a request, `socket.request.max.bytes` | 100 MiB | |
| `quota.lease.ms` | 400 | |
| `offsets.retention.minutes` | 7 days | |
"""
    assert [(key, wrong(key, number, unit)) for key, number, unit in told(page)] == [
        ("replica.lag.time.max.ms", False),
        ("replica.lag.time.max.ms", True),
        ("socket.request.max.bytes", False),
        ("quota.lease.ms", True),
        ("offsets.retention.minutes", False),
    ]

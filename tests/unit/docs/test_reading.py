"""A reader finds every page in two steps from README.md, and every table of figures says where it comes from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.commands import ROOT
from support.pages import blocks, complaints, name, pages

LINES = 250
LONGER = {  # pages of more lines, with the reason
    "docs/benchmarks.md": "results, most of them written by scripts",
    "docs/compatibility.md": "written by the scripts that ask Tailrace and Apache Kafka",
    "docs/operations.md": "the procedures of an operator, each with its commands",
    "docs/quotas.md": "one page for everything that a quota does, a third of it written by scripts",
}
FOR_READERS = [page for page in pages() if not name(page).startswith(("libs/", "services/"))]
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+\.md)(?:#[^)\s]*)?\)")
_ROW = re.compile(r"^ *\|.*\|$")
_RULE = re.compile(r"^ *\|(?: *:?-+:? *\|)+$")


def tables(text: str) -> list[list[str]]:
    """The tables of a page: rows that follow each other, outside of fenced blocks."""
    for _, content in blocks(text):
        text = text.replace(content, "\n")
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if _ROW.match(line):
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [rows for rows in found if rows]


def linked(page: Path) -> set[Path]:
    return {(page.parent / target).resolve() for target in _LINK.findall(page.read_text(encoding="utf-8"))}


def test_every_page_is_two_steps_from_the_first() -> None:
    first = linked(ROOT / "README.md")
    second = {page for near in first if near.is_file() for page in linked(near)}
    assert not [name(page) for page in FOR_READERS if page not in first | second | {ROOT / "README.md"}]


def test_a_page_is_short_or_has_a_reason() -> None:
    long = {name(page) for page in pages() if len(page.read_text(encoding="utf-8").splitlines()) > LINES}
    assert long == set(LONGER)


def is_whole(rows: list[str]) -> bool:
    """A table with a head, a rule and rows, all of one width."""
    widths = {len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", row))) for row in rows}
    return len(rows) > 2 and _RULE.match(rows[1]) is not None and len(widths) == 1


def test_every_table_has_a_head_and_rows_of_one_width() -> None:
    assert complaints(pages(), lambda text: [rows[0] for rows in tables(text) if not is_whole(rows)]) == {}


def sections(text: str) -> list[str]:
    return re.split(r"^(?=##+ )", text, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("page", ["README.md", "docs/benchmarks.md"])
def test_figures_say_their_command_and_their_commit(page: str) -> None:
    measured = [
        part for part in sections((ROOT / page).read_text(encoding="utf-8")) if re.search(r"\| *[\d,.]+ ", part)
    ]
    assert measured
    for part in measured:
        assert re.search(r"\bcommit [0-9a-f]{7,}\b", part), part[:60]
        assert re.search(r"`PYTHONPATH=tests python -m bench[\w.]*[^`]*`", part), part[:60]


def test_the_method_lists_every_benchmark_with_a_command() -> None:
    named = {
        command
        for page in FOR_READERS
        for command in re.findall(r"python -m (bench(?:\.\w+)?)\b", page.read_text(encoding="utf-8"))
    }
    method = (ROOT / "docs" / "benchmark-method.md").read_text(encoding="utf-8")
    assert (
        named - set(re.findall(r"^\|[^|]+\| `PYTHONPATH=tests python -m (bench[.\w]*)", method, re.MULTILINE)) == set()
    )

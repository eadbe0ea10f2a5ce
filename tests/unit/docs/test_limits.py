"""docs/limits.md: each limit names a test that keeps it, and the test is there."""

import re

from support.commands import ROOT
from support.sources import text_of

PAGE = ROOT / "docs" / "limits.md"
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in re.sub(
        r"(?s)<!-- Written by.*?<!-- The end", "", (ROOT / "docs" / "limits.md").read_text()
    ).splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| limit"))
]


def has_test(cell: str) -> bool:
    found = re.fullmatch(r"`(\S+\.py)::(test_\w+)`", cell)
    path = ROOT / "tests" / found[1] if found else None
    return bool(found and path and path.is_file() and re.search(rf"^(async )?def {found[2]}\(", text_of(path), re.M))


def test_each_limit_has_a_test() -> None:
    assert [row for row in ROWS if not has_test(row[-1])] == []


def test_no_limit_is_told_twice() -> None:
    assert len({row[0] for row in ROWS}) == len(ROWS) > 30

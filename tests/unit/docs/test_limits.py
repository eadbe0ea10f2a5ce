"""docs/limits.md: each limit names a test that keeps it, and the test is there."""

import re
from pathlib import Path

import pytest

from support.commands import ROOT

ROWS = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in (ROOT / "docs" / "limits.md").read_text().splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| limit"))
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_limit_has_a_test(row: list[str]) -> None:
    found = re.fullmatch(r"`(\S+\.py)::(test_\w+)`", row[-1])
    assert found is not None, row[-1]
    path, name = found.groups()
    text = (Path(ROOT) / "tests" / path).read_text()
    assert re.search(rf"^(async )?def {name}\(", text, re.M), f"{path} has no {name}"


def test_no_limit_is_told_twice() -> None:
    assert len({row[0] for row in ROWS}) == len(ROWS) > 30

"""The metrics that docs/metrics.md names, role by role."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
ROLES = ("controller", "broker", "coordinator", "quota", "gateway")
BESIDE = ("table",)  # the worker of tables, which a cluster has only where a topic asks
_NAME = re.compile(r"`([a-z_]+)(?:\{[a-z_,]+\})?`")


def documented(of: Collection[str] = ROLES) -> dict[str, set[str]]:
    """The names in the second column of the page's table; an empty first column stands for the role above."""
    found: dict[str, set[str]] = {role: set() for role in of}
    roles: list[str] = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 3:
            continue
        roles = cells[0].split(", ") if cells[0] else roles
        for role in roles if set(roles) <= set(of) else ():
            found[role] |= set(_NAME.findall(cells[1]))
    return found

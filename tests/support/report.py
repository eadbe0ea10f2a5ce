"""docs/compatibility.md from one run of the scripts."""

from pathlib import Path

import pytest


class Report:
    """Collects what each script showed on each target."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, str, str], str] = {}

    def add(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """Keeps one outcome under (client, capability, target)."""

    def write(self, path: Path) -> None:
        """Writes the page."""

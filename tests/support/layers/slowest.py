"""A pytest plugin that notes what each file of tests took, and the table of the slowest.

The seconds of a fixture of the session are those of the file that asks for it first.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

VARIABLE = "TEST_TIMES"  # names the file that every pytest of one run adds its rows to
SHOWN = 10


class Times:
    """The seconds of each file, of the clock and of the processor: this process and children that have ended."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._rows: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        began, before = time.monotonic(), processor_seconds()
        result = yield
        row = self._rows[item.nodeid.partition("::")[0]]
        row[0] += time.monotonic() - began
        row[1] += processor_seconds() - before
        return result

    def pytest_sessionfinish(self) -> None:
        with self._file.open("a") as out:
            out.writelines(f"{wall:.2f}\t{cpu:.2f}\t{name}\n" for name, (wall, cpu) in self._rows.items())


def processor_seconds() -> float:
    return sum(os.times()[:4])


def pytest_configure(config: pytest.Config) -> None:
    if file := os.environ.get(VARIABLE):
        config.pluginmanager.register(Times(Path(file)), "tailrace-times")


def table(file: Path) -> list[str]:
    """The slowest files, longest first."""
    rows = [line.split("\t") for line in file.read_text().splitlines()] if file.exists() else []
    rows.sort(key=lambda row: -float(row[0]))
    return [f"{float(wall):7.1f} s {float(cpu):7.1f} s of processor  {name}" for wall, cpu, name in rows[:SHOWN]]

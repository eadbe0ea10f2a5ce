"""Two targets compared by short runs right after one another, so that what drifts slowly cancels out.

Differences of a few per cent drown in a noisy machine when long runs are compared. Here runs alternate, outer, inner,
outer, and each inner one is set against the mean of its two neighbours. The figure of a cell is the median of many such
ratios, with the range that holds the true median with 95 % (order statistics: nothing is assumed of the noise). The
same range of the second neighbour against the first, where the truth is 1, says what the method itself is worth on this
machine. Every ratio counts, disturbed or not.
"""

import statistics
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import comb
from pathlib import Path

from bench import client, machine, report
from bench.cells import Cell
from bench.memory import add_option
from bench.report import say
from bench.run import Bench
from bench.servers import Target

WARM_UP_SECONDS = 0.15
RATE, CPU = KEYS = ("requests_per_second", "server_cpu_us")
KEPT, MISSED, OPEN = "**kept**", "missed", "open"
FEWEST = 6  # ratios; of fewer not even the extremes hold the median with 95 %


@dataclass
class Ratios:
    """One cell: per figure the ratios of the inner target to the outer, and of the outer to itself."""

    cell: Cell
    target: str
    measured: dict[str, list[float]] = field(default_factory=lambda: {key: [] for key in KEYS})
    control: dict[str, list[float]] = field(default_factory=lambda: {key: [] for key in KEYS})
    failures: list[str] = field(default_factory=list)

    def add(self, before: client.Result, between: client.Result, after: client.Result) -> None:
        """One triple: outer, inner, outer."""
        for key in KEYS:
            first, middle, last = (max(float(run[key]), 1e-9) for run in (before, between, after))
            self.measured[key].append(2 * middle / (first + last))
            self.control[key].append(last / first)

    @property
    def has_rate(self) -> bool:
        """Whether the load goes as fast as it can; at a given rate only its cost says something."""
        return "rate" not in self.cell.options


def median_range(values: Sequence[float]) -> tuple[float, float]:
    """Where the median of what these were drawn from lies with at least 95 %; the extremes where they are too few."""
    ordered, size = sorted(values), len(values)
    rank, below = 0, 1.0  # values below the range's first: the chance that the median is among them, both ends together
    while rank < (size - 1) // 2 and (below := below + comb(size, rank + 1)) * 2 / 2**size <= 0.05:
        rank += 1
    return ordered[rank], ordered[-1 - rank]


def median_text(values: Sequence[float], digits: int = 3) -> str:
    """The median, and its range in brackets."""
    low, high = median_range(values)
    return f"{statistics.median(values):.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def figures(row: Ratios, key: str) -> list[str]:
    """Three cells of the table: the median, its range, the control's."""
    if not row.measured[key]:
        return [f"failed: {row.failures[-1] if row.failures else 'no run'}", "", ""]
    if key == RATE and not row.has_rate:
        return ["-"] * 3
    (low, high), (first, last) = median_range(row.measured[key]), median_range(row.control[key])
    return [f"{statistics.median(row.measured[key]):.3f}", f"{low:.3f}-{high:.3f}", f"{first:.3f}-{last:.3f}"]


def verdict(row: Ratios, *, least_rate: float | None = None, most_cpu: float | None = None) -> str:
    """What the ranges say of the aims: kept or missed if they lie wholly on one side, else open."""
    judged = []
    if not row.measured[CPU]:
        return report.NOTHING
    if most_cpu is not None:
        low, high = median_range(row.measured[CPU])
        judged.append((high <= most_cpu, low > most_cpu))
    if least_rate is not None and row.has_rate:
        low, high = median_range(row.measured[RATE])
        judged.append((low >= least_rate, high < least_rate))
    return settled(judged, len(row.measured[CPU])) if judged else report.NOTHING


def settled(judged: Sequence[tuple[bool, bool]], ratios: int) -> str:
    """What ranges of so many ratios say together, of each whether it keeps its aim wholly and whether it misses it."""
    if ratios < FEWEST:
        return OPEN
    if all(kept for kept, _ in judged):
        return KEPT
    return MISSED if any(missed for _, missed in judged) else OPEN


def measure(bench: Bench, outer: Target, inner: Sequence[Target], options: Namespace) -> list[Ratios]:
    """All cells, some rounds of each in turn, so that a bad minute meets a part of every cell only."""
    rows = [Ratios(cell, target.name) for cell in bench.cells for target in inner]
    for turn in range(options.turns):
        for cell in bench.cells:
            mine = {row.target: row for row in rows if row.cell is cell}
            before: client.Result | None = None
            for number in range(options.rounds):
                order = inner if number % 2 else inner[::-1]
                try:
                    before = before or bench.load(cell, outer, options.seconds, WARM_UP_SECONDS)
                    between = [bench.load(cell, target, options.seconds, WARM_UP_SECONDS) for target in order]
                    after = bench.load(cell, outer, options.seconds, WARM_UP_SECONDS)
                except client.LoadFailed as reason:
                    before = None
                    for row in mine.values():
                        row.failures.append(str(reason))
                    continue
                for target, run in zip(order, between, strict=True):
                    mine[target.name].add(before, run, after)
                before = after
        say(f"turn {turn + 1} of {options.turns} is over")
    return rows


def publish(section: str, bench: Bench, command: str, runs: str, table: Sequence[str]) -> None:
    """Rewrites a section: the machine, the command, what was left out, the table."""
    lines = [*machine.describe(), f"Command: `PYTHONPATH=tests python -m {command}` ({runs}).", "", *bench.remarks, ""]
    report.write_section(section, "\n".join([*lines, *table]), bench.options.output)
    say("\n".join(table))


def parser(program: str, description: str, *, turns: int, seconds: float) -> ArgumentParser:
    """How many rounds, how long each run."""
    made = ArgumentParser(prog=f"python -m {program}", description=description.partition("\n")[0])
    made.add_argument("--seconds", type=float, default=seconds, help="length of one run")
    made.add_argument("--turns", type=int, default=turns, help="times that the cells are gone through")
    made.add_argument("--rounds", type=int, default=7, help="rounds of a cell in one turn")
    made.add_argument("--cells", default="", help="only cells whose name contains this")
    add_option(made)
    made.add_argument("--output", type=Path, default=report.DOCUMENT, help="the report to rewrite")
    return made

"""What the way by the gateway costs a client whose socket is handed over, against the same broker's own listener.

Differences of a few per cent drown in a noisy machine when long runs are compared. Here short runs follow one another,
direct, handed over, direct, and each handed-over one is set against the mean of its two neighbours: what drifts slowly
cancels out. The figure of a cell is the median of many such ratios, with the range that holds the true median with
95 % (order statistics: nothing is assumed of the noise). The same range of the second neighbour against the first,
where the truth is 1, says what the method itself is worth on this machine. Every triple counts, disturbed or not.
"""

import shutil
import statistics
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import comb
from pathlib import Path

from bench import client, machine, report, servers
from bench.cells import Cell
from bench.report import say
from bench.run import Bench

WARM_UP_SECONDS = 0.15
LEAST_RATE, MOST_CPU = 0.95, 1.05
KEYS = ("requests_per_second", "server_cpu_us")
HEADER = "| | requests/s | 95 % range | control | CPU/request | 95 % range | control | aim |"


@dataclass
class Ratios:
    """One cell: per figure the ratios of handed over to direct, and of direct to direct."""

    cell: Cell
    handed_over: dict[str, list[float]] = field(default_factory=lambda: {key: [] for key in KEYS})
    control: dict[str, list[float]] = field(default_factory=lambda: {key: [] for key in KEYS})
    failures: list[str] = field(default_factory=list)

    def add(self, before: client.Result, between: client.Result, after: client.Result) -> None:
        """One triple: direct, handed over, direct."""
        for key in KEYS:
            first, middle, last = (max(float(run[key]), 1e-9) for run in (before, between, after))
            self.handed_over[key].append(2 * middle / (first + last))
            self.control[key].append(last / first)


def median_range(values: Sequence[float]) -> tuple[float, float]:
    """Where the median of what these were drawn from lies with at least 95 %; the extremes where they are too few."""
    ordered, count = sorted(values), len(values)
    rank, below = 0, 1.0  # values below the range's first: the chance that the median is among them, both ends together
    while rank < (count - 1) // 2 and (below := below + comb(count, rank + 1)) * 2 / 2**count <= 0.05:
        rank += 1
    return ordered[rank], ordered[-1 - rank]


def line(row: Ratios) -> str:
    """A row of the table."""
    if len(row.handed_over[KEYS[0]]) == 0:
        return f"| {row.cell.name} | failed: {row.failures[-1] if row.failures else 'no run'}" + " |" * 7
    cells = []
    for key in KEYS:
        low, high = median_range(row.handed_over[key])
        first, last = median_range(row.control[key])
        cells += [f"{statistics.median(row.handed_over[key]):.3f}", f"{low:.3f}-{high:.3f}", f"{first:.3f}-{last:.3f}"]
    if "rate" in row.cell.options:
        cells[:3] = ["-"] * 3
    return f"| {row.cell.name} | {' | '.join(cells)} | {verdict(row)} |"


def verdict(row: Ratios) -> str:
    """What the ranges say of the aims: kept or missed if they lie wholly on one side, else open."""
    costs = median_range(row.handed_over["server_cpu_us"])
    judged = [(costs[1] <= MOST_CPU, costs[0] > MOST_CPU)]
    if "rate" not in row.cell.options:
        rates = median_range(row.handed_over["requests_per_second"])
        judged.append((rates[0] >= LEAST_RATE, rates[1] < LEAST_RATE))
    if all(kept for kept, _ in judged):
        return "**kept**"
    return "missed" if any(missed for _, missed in judged) else "open"


def measure(bench: Bench, options: Namespace) -> list[Ratios]:
    """All cells, some triples of each in turn, so that a bad minute meets a part of every cell only."""
    direct, handed_over = (next(t for t in bench.targets if t.name == name) for name in ("direct", "handover"))
    rows = [Ratios(cell) for cell in bench.cells]
    for turn in range(options.turns):
        for row in rows:
            before = None
            for _ in range(options.triples):
                try:
                    first = before or bench.load(row.cell, direct, options.seconds, WARM_UP_SECONDS)
                    middle = bench.load(row.cell, handed_over, options.seconds, WARM_UP_SECONDS)
                    before = bench.load(row.cell, direct, options.seconds, WARM_UP_SECONDS)
                    row.add(first, middle, before)
                except client.LoadFailed as reason:
                    before = None
                    row.failures.append(str(reason))
        say(f"turn {turn + 1} of {options.turns} is over")
    return rows


def parse(arguments: list[str]) -> Namespace:
    """How many triples, how long each run."""
    parser = ArgumentParser(prog="python -m bench.handover", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.6, help="length of one run")
    parser.add_argument("--turns", type=int, default=4, help="times that the cells are gone through")
    parser.add_argument("--triples", type=int, default=7, help="triples of a cell in one turn")
    parser.add_argument("--cells", default="", help="only cells whose name contains this")
    parser.add_argument("--output", type=Path, default=report.DOCUMENT, help="the report to rewrite")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Measures, and rewrites the section."""
    options = parse(arguments)
    if problem := client.missing():
        say(f"nothing to measure with: {problem}")
        return
    shared_memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="tailrace-bench-", dir=shared_memory if shared_memory.is_dir() else None))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        bench = Bench(options)
        bench.start("tailrace", servers.tailrace(folder), stack)
        rows = measure(bench, options) if bench.targets else []
    command = " ".join(["PYTHONPATH=tests python -m bench.handover", *arguments])
    count = f"{options.turns * options.triples} triples of {options.seconds:g} s runs a cell"
    head = [*machine.describe(), f"Command: `{command}` ({count}).", "", *bench.remarks, ""]
    table = [HEADER, "|---" + "|--:" * 7 + "|", *map(line, rows)]
    report.write_section("handover", "\n".join([*head, *table]), options.output)
    say("\n".join(table))


if __name__ == "__main__":
    main(sys.argv[1:])

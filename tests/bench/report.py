"""Turns measurements into the tables of docs/benchmarks.md; what people wrote around its marked sections stays."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.cells import Cell
from bench.client import Result

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
HEADER = "| | requests/s | spread | MB/s | server CPU µs/request | p50 µs | p99 µs | x Kafka | aim |"
NOTHING = "-"


@dataclass
class Row:
    """All runs of one cell against one target; failure is the reason why a run has no figures."""

    cell: Cell
    target: str
    runs: list[Result] = field(default_factory=list)
    failure: str | None = None

    def median(self, key: str) -> float:
        """The middle of the runs."""
        return statistics.median(float(run[key]) for run in self.runs)

    def keep_calmest(self, count: int) -> None:
        """Forgets all runs but those during which others used least of the machine."""
        self.runs = sorted(self.runs, key=_foreign_share)[:count]

    def disturbance(self, count: int) -> float:
        """The most that others used during the calmest runs; 0 without any."""
        return max((float(run["foreign_share"]) for run in sorted(self.runs, key=_foreign_share)[:count]), default=0.0)

    @property
    def requests_per_second(self) -> float | None:
        """The median rate, None when no run succeeded."""
        return self.median("requests_per_second") if self.runs else None

    @property
    def spread(self) -> float:
        """Largest minus smallest rate, as a share of the median."""
        rates = [float(run["requests_per_second"]) for run in self.runs]
        return (max(rates) - min(rates)) / statistics.median(rates)


def say(line: str) -> None:
    """Progress goes to the terminal at once."""
    print(line, flush=True)


def _foreign_share(run: Result) -> float:
    return float(run["foreign_share"])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _ratio(row: Row, kafka: Row | None) -> str:
    rate, base = row.requests_per_second, kafka.requests_per_second if kafka else None
    if rate is None or not base or row.target == "kafka" or "rate" in row.cell.options:
        return NOTHING
    ratio, aim = rate / base, row.cell.aim(row.target)
    return f"**{ratio:.2f}**" if aim and ratio >= aim else f"{ratio:.2f}"


def _line(row: Row, kafka: Row | None) -> str:
    if not row.runs:
        return f"| {row.target} | failed: {row.failure} |" + "  |" * 7
    aim = row.cell.aim(row.target)
    figures = [_number(row.median("requests_per_second")), f"{row.spread:.0%}"]
    figures += [_number(row.median(key)) for key in ("megabytes_per_second", "server_cpu_us", "p50_us", "p99_us")]
    return " | ".join([f"| {row.target}", *figures, _ratio(row, kafka), f"{aim:.1f}" if aim else NOTHING]) + " |"


def table(rows: Sequence[Row]) -> str:
    """One Markdown table: a bold line per cell, below it a line per target."""
    lines = [HEADER, "|---" + "|--:" * 8 + "|"]
    for cell in dict.fromkeys(row.cell for row in rows):
        mine = [row for row in rows if row.cell is cell]
        kafka = next((row for row in mine if row.target == "kafka"), None)
        lines.append(f"| **{cell.name}**" + " |" * 9)
        lines += [_line(row, kafka) for row in mine]
    return "\n".join(lines)


def client_cost(rows: Sequence[Row]) -> str:
    """A sentence on what the load client itself cost."""
    shares = [row.median("client_cpu_us") / max(row.median("server_cpu_us"), 0.01) for row in rows if row.runs]
    if not shares:
        return ""
    middle = statistics.median(shares)
    return f"The load client's own CPU was {middle:.0%} of the servers' in the median cell, {max(shares):.0%} at most."


def calm(rows: Sequence[Row]) -> str:
    """A sentence on how quiet the machine was."""
    shares = [_foreign_share(run) for row in rows for run in row.runs]
    if not shares:
        return ""
    return f"Others used {statistics.median(shares):.0%} of the machine in the median run, {max(shares):.0%} at most."


def handed_over(rows: Sequence[Row]) -> str:
    """A sentence on what the way by the gateway costs a client whose socket is handed over: 1 would be nothing."""
    direct = {row.cell: row for row in rows if row.target == "direct" and row.runs}
    pairs = [(row, direct[row.cell]) for row in rows if row.target == "handover" and row.runs and row.cell in direct]
    rates = [_of(row, other, "requests_per_second") for row, other in pairs if "rate" not in row.cell.options]
    costs = [_of(row, other, "server_cpu_us") for row, other in pairs]
    if not rates:
        return ""
    return (
        f"Handed over, against direct: {statistics.median(rates):.2f} of the requests/s in the median cell, "
        f"{min(rates):.2f} in the worst; {statistics.median(costs):.2f} of the CPU, {max(costs):.2f} in the worst."
    )


def _of(row: Row, other: Row, key: str) -> float:
    return row.median(key) / max(other.median(key), 0.01)


def replace_section(document: str, name: str, text: str) -> str:
    """Puts text between `<!-- name -->` and `<!-- /name -->`; appends the section when the document has none."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    section = f"{begin}\n{text.strip()}\n{end}"
    before, found, rest = document.partition(begin)
    if not found:
        return f"{document.rstrip()}\n\n{section}\n".lstrip()
    return before + section + rest.partition(end)[2]


def write_section(name: str, text: str, path: Path = DOCUMENT) -> None:
    """Rewrites one section of the report."""
    document = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(replace_section(document, name, text), encoding="utf-8")

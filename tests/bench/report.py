"""Turns measurements into the tables of docs/benchmarks.md; the text around its marked sections stays."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.cells import Cell
from bench.client import Result

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
MEASURES = (
    ("requests/s, in brackets x Kafka", "requests_per_second"),
    ("server CPU, µs/request", "server_cpu_us"),
    ("p99 latency, µs", "p99_us"),
)
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


def _with_ratio(row: Row, kafka: Row | None) -> str:
    """The rate and, in brackets, the multiple of Kafka's; bold if that reaches its aim."""
    rate, base = row.median("requests_per_second"), kafka.requests_per_second if kafka else None
    if not base or row.target == "kafka" or "rate" in row.cell.options:
        return _number(rate)
    ratio, aim = rate / base, row.cell.aim(row.target)
    return f"{_number(rate)} " + (f"**({ratio:.2f})**" if aim and ratio >= aim else f"({ratio:.2f})")


def _aims(cell: Cell, targets: Sequence[str]) -> str:
    return ", ".join(f"{target} {aim:.1f}" for target in targets if (aim := cell.aim(target))) or NOTHING


def table(rows: Sequence[Row]) -> str:
    """A Markdown table for each measure: a line for each cell, a column for each target; below them the failures."""
    targets = list(dict.fromkeys(row.target for row in rows))
    found = {(row.cell, row.target): row for row in rows}
    lines: list[str] = []
    for title, key in MEASURES:
        rates = key == "requests_per_second"
        lines += [f"| {title} | " + " | ".join([*targets, *(["aim"] if rates else [])]) + " |"]
        lines += ["|---" + "|--:" * len(targets) + ("|---|" if rates else "|")]
        for cell in dict.fromkeys(row.cell for row in rows):
            kafka = found.get((cell, "kafka"))
            figures = [_figure(found.get((cell, target)), key, kafka) for target in targets]
            lines += ["| " + " | ".join([cell.name, *figures, *([_aims(cell, targets)] if rates else [])]) + " |"]
        lines += [""]
    failed = [f"- {row.cell.name}, {row.target}: {row.failure}" for row in rows if not row.runs]
    return "\n".join([*lines, *failed]).rstrip()


def _figure(row: Row | None, key: str, kafka: Row | None) -> str:
    if row is None:
        return NOTHING
    if not row.runs:
        return "failed"
    return _with_ratio(row, kafka) if key == "requests_per_second" else _number(row.median(key))


def spreads(rows: Sequence[Row]) -> str:
    """A sentence on how far the rounds lay apart."""
    found = [row.spread for row in rows if row.runs]
    if not found:
        return ""
    return (
        "Spread of a cell's rounds (largest minus smallest rate, of the median): "
        f"{statistics.median(found):.0%} in the median cell, {max(found):.0%} at most."
    )


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

"""`PYTHONPATH=tests python -m bench.commands`: what a command of the command line costs, beside an empty Python.

CPU of the process, by turns, so that a busy machine does to all the same. Rewrites a section of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys

from bench import machine, report
from tailrace.testing import Cluster

COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "tailrace --help": ("-m", "tailrace.cli", "--help"),
    "tailrace topic list": ("-m", "tailrace.cli", "topic", "list"),
    "tailrace group list": ("-m", "tailrace.cli", "group", "list"),
}


def cost_ms(arguments: tuple[str, ...], environ: dict[str, str]) -> float:
    """User and system time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], env=environ, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def table(rounds: int, environ: dict[str, str]) -> str:
    """Medians and least of all rounds."""
    runs: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds + 1):
        for name, arguments in COMMANDS.items():
            runs[name].append(cost_ms(arguments, environ))
    lines = ["| command | CPU, ms, median | least |", "|---|--:|--:|"]
    for name, costs in runs.items():
        counted = costs[1:]  # the first one compiles
        lines.append(f"| `{name}` | {statistics.median(counted):.0f} | {min(counted):.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Starts a cluster and asks it."""
    parser = argparse.ArgumentParser(prog="python -m bench.commands")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with Cluster() as cluster:
        environ = {**os.environ, "TAILRACE_BOOTSTRAP": cluster.bootstrap}
        measured = table(options.rounds, environ)
    command = f"Command: `PYTHONPATH=tests python -m bench.commands --rounds {options.rounds}`."
    busy = f"Load of the machine at the end: {os.getloadavg()[0]:.1f}."
    report.write_section("commands", "\n".join([*machine.describe(kafka=False), command, busy, "", measured]))


if __name__ == "__main__":
    main()

"""`PYTHONPATH=tests python -m sim.log`: any number of simulated logs, or one of them told as a story."""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sim.log.simulation import EVENTS, Outcome, simulate

CHUNK = 10
SHOWN = 5  # failures told in full


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m sim.log", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many worlds (200)")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one a core)")
    parser.add_argument("--story", action="store_true", help="run the first seed only and tell all that happened")
    return parser.parse_args()


def main() -> int:
    """Returns 1 when a promise was broken."""
    asked = arguments()
    if asked.story:
        outcome = simulate(asked.first, whole_story=True)
        print(outcome.story)
        print(f"\nseed {outcome.seed}: {outcome.failure or 'every promise was kept'}")
        return int(outcome.failure is not None)
    return explore(range(asked.first, asked.first + asked.seeds), asked.jobs)


def explore(seeds: range, jobs: int) -> int:
    """Runs them all behind a progress bar."""
    console = Console()
    began = time.monotonic()
    failed: list[Outcome] = []
    sums = dict.fromkeys(("faults", "recoveries", "compactions", "acknowledged"), 0)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), TextColumn("[red]{task.fields[failed]}"),
    )  # fmt: skip
    with ProcessPoolExecutor(jobs) as pool, Progress(*columns, console=console) as progress:
        bar = progress.add_task("worlds", total=len(seeds), failed="")
        for begin in range(0, len(seeds), CHUNK * jobs * 20):
            for outcome in pool.map(simulate, seeds[begin : begin + CHUNK * jobs * 20], chunksize=CHUNK):
                progress.advance(bar)
                for name in sums:
                    sums[name] += getattr(outcome, name)
                if outcome.failure:
                    failed.append(outcome)
                    progress.update(bar, failed=f"{len(failed)} failed")
    for outcome in failed[:SHOWN]:
        print(f"\n{outcome.story}\n\nseed {outcome.seed}: {outcome.failure}")
        print(f"again: python -m sim.log --story --from {outcome.seed}")
    if len(failed) > SHOWN:
        print("also: " + ", ".join(str(outcome.seed) for outcome in failed[SHOWN:]))
    seconds = time.monotonic() - began
    told = ", ".join(f"{count} {name}" for name, count in sums.items())
    print(f"{len(seeds)} worlds in {seconds:.0f} s: {len(seeds) * EVENTS} events, {told}; {len(failed)} failed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

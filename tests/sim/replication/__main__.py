"""`PYTHONPATH=tests python -m sim.replication`: any number of simulated worlds, or one of them told as a story."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sim.replication.profiles import PROFILES
from sim.replication.simulation import Outcome, simulate

CHUNK = 10
SHOWN = 5  # failures told in full


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m sim.replication", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many worlds of each profile (200)")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed (1)")
    parser.add_argument("--profile", choices=[*PROFILES, "all"], default="all", help="which faults (all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one a core)")
    parser.add_argument("--story", action="store_true", help="run the first seed only and tell all that happened")
    return parser.parse_args()


def main() -> int:
    """Returns 1 when a promise was broken."""
    asked = arguments()
    profiles = list(PROFILES) if asked.profile == "all" else [asked.profile]
    if asked.story:
        return tell([simulate(asked.first, profile, whole_story=True) for profile in profiles])
    return explore(profiles, range(asked.first, asked.first + asked.seeds), asked.jobs)


def tell(outcomes: list[Outcome]) -> int:
    """Prints whole stories."""
    for outcome in outcomes:
        print(outcome.story)
        print(f"\nseed {outcome.seed}, profile {outcome.profile}: {outcome.failure or 'every promise was kept'}")
    return int(any(outcome.failure for outcome in outcomes))


def run(task: tuple[str, int]) -> Outcome:
    """One world; in a process of its own."""
    return simulate(task[1], task[0])


def explore(profiles: list[str], seeds: range, jobs: int) -> int:
    """Runs them all behind a progress bar."""
    console = Console()
    began = time.monotonic()
    failed: list[Outcome] = []
    sums = {"events": 0, "faults": 0, "acknowledged": 0, "elections": 0, "unclean_elections": 0}
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), TextColumn("[red]{task.fields[failed]}"),
    )  # fmt: skip
    with ProcessPoolExecutor(jobs) as pool, Progress(*columns, console=console) as progress:
        bar = progress.add_task("worlds", total=len(profiles) * len(seeds), failed="")
        tasks = ((profile, seed) for seed in seeds for profile in profiles)
        while chunk := list(islice(tasks, CHUNK * jobs * 20)):
            for outcome in pool.map(run, chunk, chunksize=CHUNK):
                progress.advance(bar)
                for name in sums:
                    sums[name] += getattr(outcome, name)
                if outcome.failure:
                    failed.append(outcome)
                    progress.update(bar, failed=f"{len(failed)} failed")
    count, seconds = len(profiles) * len(seeds), time.monotonic() - began
    for line in report(failed):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{count} worlds in {seconds:.0f} s ({count / seconds:.1f}/s): {sums['events']} events, {sums['faults']} faults"
        f", {sums['elections']} elections ({sums['unclean_elections']} unclean), {sums['acknowledged']} acknowledged"
        f" batches; {len(failed)} failed",
        highlight=False,
    )
    return int(bool(failed))


def report(failed: list[Outcome]) -> Iterator[str]:
    """Yields the first failures with the end of their stories, and the numbers of the others."""
    for outcome in failed[:SHOWN]:
        yield f"\n{outcome.story}\n"
        yield f"seed {outcome.seed}, profile {outcome.profile}: {outcome.failure}"
        yield f"again: python -m sim.replication --story --from {outcome.seed} --profile {outcome.profile}"
    if len(failed) > SHOWN:
        yield "also: " + ", ".join(f"{outcome.profile} {outcome.seed}" for outcome in failed[SHOWN:])


if __name__ == "__main__":
    sys.exit(main())

"""`PYTHONPATH=tests python -m sim.replication`: any number of simulated worlds, or one of them told as a story."""

from __future__ import annotations

import sys
import time

from rich.console import Console

from sim import worlds
from sim.replication.profiles import PROFILES
from sim.replication.simulation import Outcome, simulate


def main() -> int:
    """Returns 1 when a promise was broken."""
    parser = worlds.arguments("sim.replication", __doc__)
    parser.add_argument("--profile", choices=[*PROFILES, "all"], default="all", help="which faults (all)")
    asked = parser.parse_args()
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
    """Runs them all, those of each profile, behind a progress bar."""
    console = Console()
    began = time.monotonic()
    sums = {"events": 0, "faults": 0, "acknowledged": 0, "elections": 0, "unclean_elections": 0}
    count = len(profiles) * len(seeds)
    tasks = ((profile, seed) for seed in seeds for profile in profiles)
    failed = worlds.explore(run, tasks, count, jobs, console, worlds.adding(sums))
    seconds = time.monotonic() - began
    for line in worlds.report(failed, name, again):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{count} worlds in {seconds:.0f} s ({count / seconds:.1f}/s): {sums['events']} events, {sums['faults']} faults"
        f", {sums['elections']} elections ({sums['unclean_elections']} unclean), {sums['acknowledged']} acknowledged"
        f" batches; {len(failed)} failed",
        highlight=False,
    )
    return int(bool(failed))


def name(outcome: Outcome) -> str:
    """Which world."""
    return f"seed {outcome.seed}, profile {outcome.profile}"


def again(outcome: Outcome) -> str:
    """The command that shows it alone."""
    return f"python -m sim.replication --story --from {outcome.seed} --profile {outcome.profile}"


if __name__ == "__main__":
    sys.exit(main())

"""`PYTHONPATH=tests python -m sim.transactions`: any number of simulated worlds, or one of them told as a story."""

from __future__ import annotations

import sys
import time

from rich.console import Console

from sim import worlds
from sim.transactions.simulation import simulate


def main() -> int:
    """Returns 1 when a promise was broken."""
    asked = worlds.arguments("sim.transactions", __doc__).parse_args()
    if asked.story:
        outcome = simulate(asked.first, whole_story=True)
        print(outcome.story)
        print(f"\nseed {outcome.seed}: {outcome.failure or 'every promise was kept'}")
        return int(outcome.failure is not None)
    return explore(range(asked.first, asked.first + asked.seeds), asked.jobs)


def explore(seeds: range, jobs: int) -> int:
    """Runs them all behind a progress bar."""
    began = time.monotonic()
    sums = dict.fromkeys(("events", "faults", "committed", "aborted"), 0)
    failed = worlds.explore(simulate, seeds, len(seeds), jobs, Console(), sums)
    again = "python -m sim.transactions --story --from {}"
    for line in worlds.report(failed, lambda world: f"seed {world.seed}", lambda world: again.format(world.seed)):
        print(line)
    told = ", ".join(f"{count} {name}" for name, count in sums.items())
    print(f"{len(seeds)} worlds in {time.monotonic() - began:.0f} s: {told}; {len(failed)} failed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

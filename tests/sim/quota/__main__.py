"""`PYTHONPATH=tests python -m sim.quota`: any number of lives of a limited client, and the worst of them."""

from __future__ import annotations

import math
import sys
from functools import partial

from rich.console import Console

from sim import worlds
from sim.quota.lives import Outcome, simulate


def main() -> int:
    """Returns 1 when the bound was broken."""
    parser = worlds.arguments("sim.quota", __doc__)
    parser.add_argument("--shared", action="store_true", help="two quota services that share a store")
    asked = parser.parse_args()
    simulator = "sim.quota --shared" if asked.shared else "sim.quota"
    if asked.story:
        outcome = simulate(asked.first, shared=asked.shared)
        print(f"{outcome.story}\nseed {outcome.seed}: {outcome.failure or 'the bound was kept'}")
        return int(outcome.failure is not None)
    seeds, worst = range(asked.first, asked.first + asked.seeds), Worst()
    run = partial(simulate, shared=asked.shared)
    failed = worlds.explore(run, seeds, len(seeds), asked.jobs, Console(), worst.seen)
    for line in worlds.report(failed, lambda life: f"seed {life.seed}", lambda life: worlds.again(simulator, life)):
        print(line)
    print(f"{len(seeds)} lives, {len(failed)} failed\n{worst}")
    return int(bool(failed))


class Worst:
    """Of all lives."""

    def __init__(self) -> None:
        self.beyond_s = self.below = -math.inf

    def seen(self, outcome: Outcome) -> None:
        self.beyond_s, self.below = max(self.beyond_s, outcome.beyond_s), max(self.below, outcome.below)

    def __str__(self) -> str:
        upper, lower = f"{-self.beyond_s:.2f} s of the rate below the upper bound", f"{-self.below:.3f} of the rate"
        return f"the worst: {upper}, {lower} above the lower one"


if __name__ == "__main__":
    sys.exit(main())

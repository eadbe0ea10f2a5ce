"""`PYTHONPATH=tests python -m sim.quota`: any number of lives of a limited client, and the worst of them."""

from __future__ import annotations

import argparse
import sys

from sim.quota.lives import simulate


def main() -> int:
    """Returns 1 when the bound was broken."""
    parser = argparse.ArgumentParser(prog="python -m sim.quota", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many lives (200)")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed (1)")
    parser.add_argument("--shared", action="store_true", help="two quota services that share a store")
    asked = parser.parse_args()
    outcomes = [simulate(seed, shared=asked.shared) for seed in range(asked.first, asked.first + asked.seeds)]
    failed = [one for one in outcomes if one.failure]
    for one in failed:
        print(f"seed {one.seed}: {one.failure}; {one.what}")
    most, least = max(one.beyond_s for one in outcomes), max(one.below for one in outcomes)
    print(f"{len(outcomes)} lives, {len(failed)} failed")
    print(f"the worst: {-most:.2f} s of the rate below the upper bound, {-least:.3f} of the rate above the lower one")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

"""The published bound (docs/quotas.md) in every 10 s of random lives; `python -m sim.quota` runs any number of them."""

import os

import pytest

from sim.quota.lives import simulate

SEEDS = int(os.environ.get("QUOTA_SEEDS", "100"))
PART = 20
AGAIN = "again: PYTHONPATH=tests python -m sim.quota --seeds 1 --from {}"


@pytest.mark.parametrize("shared", [False, True], ids=["one service", "two services"])
@pytest.mark.parametrize("first", range(1, SEEDS + 1, PART))
def test_a_client_gets_its_rate_and_no_more_than_the_bound(first: int, shared: bool) -> None:
    happened: set[str] = set()
    # Two services take twice the time for the same rules.
    for seed in range(first, first + (PART // 2 if shared else PART)):
        outcome = simulate(seed, shared=shared)
        assert outcome.failure is None, f"seed {seed}: {outcome.failure}; {outcome.what}\n{AGAIN.format(seed)}"
        happened |= outcome.happened
    assert happened == {"move", "shift", "rate", "break"}  # a life in which nothing happens shows nothing


def test_one_seed_is_one_life() -> None:
    assert simulate(10) == simulate(10)

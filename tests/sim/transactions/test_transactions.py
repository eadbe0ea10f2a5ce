"""200 seeded worlds of transactions in the gate; `python -m sim.transactions` runs any number, with a progress bar."""

import os

import pytest

from sim.transactions.simulation import simulate
from sim.worlds import kept

SEEDS = int(os.environ.get("TRANSACTION_SEEDS", "200"))
PART = 20


@pytest.mark.parametrize("first", range(1, SEEDS + 1, PART))
def test_every_promise_is_kept(first: int) -> None:
    committed = aborted = faults = 0
    for outcome in kept("sim.transactions", simulate, range(first, first + PART)):
        committed += outcome.committed
        aborted += outcome.aborted
        faults += outcome.faults
    # A world in which nothing happens breaks no promise: something must have happened.
    assert committed > 100
    assert aborted > 50
    assert faults > 60


def test_one_seed_is_one_history() -> None:
    first, second = simulate(7, whole_story=True), simulate(7, whole_story=True)
    assert first == second

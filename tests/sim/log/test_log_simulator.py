"""200 seeded worlds of the log engine in the gate; `python -m sim.log` runs any number, with a progress bar."""

import os

import pytest

from sim.log.simulation import simulate
from sim.worlds import kept

SEEDS = int(os.environ.get("LOG_SEEDS", "200"))
PART = 20


@pytest.mark.parametrize("first", range(1, SEEDS + 1, PART))
def test_every_promise_is_kept(first: int) -> None:
    acknowledged = faults = recoveries = 0
    for outcome in kept("sim.log", simulate, range(first, first + PART)):
        acknowledged += outcome.acknowledged
        faults += outcome.faults
        recoveries += outcome.recoveries
    # A world in which nothing happens breaks no promise: something must have happened.
    assert acknowledged > 300
    assert faults > 15
    assert recoveries > 8


@pytest.mark.parametrize(
    "seed",
    [
        853,  # what compaction left comes back behind a reset that a failing disk cut short
        1886,  # a log without a batch that a cut ended in a gap
        3851,  # a flush of a log that ends in a gap, then a torn tail: no damage below the recovery point
    ],
)
def test_what_failed_once_is_kept(seed: int) -> None:
    outcome = simulate(seed)
    assert outcome.failure is None, outcome.story


def test_one_seed_is_one_history() -> None:
    first, second = simulate(7, whole_story=True), simulate(7, whole_story=True)
    assert first == second

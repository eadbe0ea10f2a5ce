"""200 seeded worlds of transactions in the gate; `python -m sim.transactions` runs any number, with a progress bar."""

import os
import subprocess
import sys

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


def test_a_seed_is_the_same_history_in_every_process() -> None:
    # Strings hash differently in each process, so whatever follows the order of a set of them tells another story.
    told = {
        subprocess.run(
            [sys.executable, "-m", "sim.transactions", "--story", "--from", "16"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": str(salt)},
            capture_output=True,
            check=True,
        ).stdout
        for salt in range(3)
    }
    assert len(told) == 1
    assert told.pop().endswith(b"every promise was kept\n")

"""300 seeded worlds in the gate; `python -m sim.replication` runs any number, with a progress bar."""

import os

import pytest

from sim.replication.profiles import PROFILES
from sim.replication.simulation import simulate

SEEDS = int(os.environ.get("REPLICATION_SEEDS", "50"))  # of each profile
PART = 10


@pytest.mark.parametrize("first", range(1, SEEDS + 1, PART))
@pytest.mark.parametrize("profile", PROFILES)
def test_every_promise_is_kept(profile: str, first: int) -> None:
    acknowledged = elections = faults = 0
    for seed in range(first, first + PART):
        outcome = simulate(seed, profile)
        assert outcome.failure is None, (
            f"seed {seed}, profile {profile}: {outcome.failure}\n{outcome.story}\n"
            f"again: PYTHONPATH=tests python -m sim.replication --story --from {seed} --profile {profile}"
        )
        acknowledged += outcome.acknowledged
        elections += outcome.elections
        faults += outcome.faults
    # A world in which nothing happens breaks no promise: something must have happened.
    assert acknowledged > 100
    assert elections > 5
    assert faults > 60


def test_one_seed_is_one_history() -> None:
    first, second = simulate(7, "power", whole_story=True), simulate(7, "power", whole_story=True)
    assert first.story == second.story
    assert first.events == second.events

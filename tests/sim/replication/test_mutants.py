"""The simulator finds what it is made to find: every rule broken on purpose fails some seed soon."""

import pytest

from sim.replication.mutants import MUTANTS, Mutant
from sim.replication.simulation import simulate

SEEDS = 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_broken_rule_is_found(mutant: Mutant) -> None:
    with mutant.applied():
        seeds = range(mutant.first_seed, mutant.first_seed + SEEDS)
        assert any(simulate(seed, mutant.profile).failure for seed in seeds)

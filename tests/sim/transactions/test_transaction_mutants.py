"""The simulator finds what it is made to find: every rule broken on purpose fails some seed."""

import pytest

from sim.transactions.mutants import MUTANTS, Mutant
from sim.transactions.simulation import simulate

SEEDS = 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_broken_rule_is_found(mutant: Mutant) -> None:
    seeds = (mutant.found_by, *range(1, SEEDS + 1))
    with mutant.applied():
        assert any(simulate(seed).failure for seed in seeds), f"no seed up to {SEEDS} finds it"

"""The simulator finds what it is made to find: every rule broken on purpose fails some seed."""

import pytest

from sim.transactions.mutants import MUTANTS
from sim.transactions.simulation import simulate
from sim.worlds import Mutant

SEEDS = 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_broken_rule_is_found(mutant: Mutant) -> None:
    assert mutant.is_found(simulate, SEEDS), f"no seed up to {SEEDS} finds it"

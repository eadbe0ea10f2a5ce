"""The simulator finds what it is made to find: every rule broken on purpose breaks the bound in some life."""

import pytest

from sim.quota.lives import simulate
from sim.quota.mutants import MUTANTS
from sim.worlds import Mutant

SEEDS = 30


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_broken_rule_is_found(mutant: Mutant) -> None:
    assert mutant.is_found(simulate, SEEDS), f"no seed up to {SEEDS} finds it"

"""Fixtures of the compat scripts."""

from collections.abc import Iterator

import pytest
from compat.version_table import Stage
from support.targets import Target


@pytest.fixture(scope="session")
def stages() -> Iterator[dict[str, Stage]]:
    """The stage of each target, once."""
    made: dict[str, Stage] = {}
    yield made
    for stage in made.values():
        stage.close()


@pytest.fixture
def stage(target: Target, stages: dict[str, Stage]) -> Stage:
    """What the raw requests refer to."""
    return stages.setdefault(target.name, Stage(target))

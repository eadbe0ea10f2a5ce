"""Every test here needs a Docker engine and the images of this tree: `./test containers` has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support import docker_engine
from support.garbage import collect_quietly, ignore_unclosed
from support.plugin import leave_out

# testcontainers reads its settings when it is imported.
os.environ.update(docker_engine.environment())


@pytest.fixture(scope="session", autouse=True)
def engine() -> None:
    if absent := docker_engine.missing():
        leave_out(absent)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ignore_unclosed(items, Path(__file__).parent)


def pytest_sessionfinish() -> None:
    collect_quietly()

"""Every test here needs a Docker engine and the images of this tree: `./test containers` has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support import docker_engine
from support.garbage import collect_quietly
from support.plugin import leave_out

# testcontainers reads its settings when it is imported.
os.environ.update(docker_engine.environment())


@pytest.fixture(scope="session", autouse=True)
def engine() -> None:
    if absent := docker_engine.missing():
        leave_out(absent)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """kafka-python leaves the sockets of refused connects to the garbage collector, which warns in some later test."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


def pytest_sessionfinish() -> None:
    collect_quietly()

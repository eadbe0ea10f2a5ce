"""Every test here needs a Docker engine and the images of this tree: `./test containers` has them."""

from __future__ import annotations

import os

import pytest

from support import docker_engine
from support.plugin import leave_out

# testcontainers reads its settings when it is imported.
os.environ.update(docker_engine.environment())


@pytest.fixture(scope="session", autouse=True)
def engine() -> None:
    if absent := docker_engine.missing():
        leave_out(absent)

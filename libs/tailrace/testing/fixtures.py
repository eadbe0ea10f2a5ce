"""pytest fixtures; use them with `pytest_plugins = ["tailrace.testing.fixtures"]`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tailrace.testing.cluster import Cluster


@pytest.fixture(scope="session")
def tailrace_cluster() -> Iterator[Cluster]:
    """One cluster for the whole session; `tailrace_cluster.bootstrap` is where clients connect."""
    with Cluster() as cluster:
        yield cluster

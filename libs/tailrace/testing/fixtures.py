"""The pytest plugin: pytest finds it by the entry point `tailrace` of pytest11, so a test only names a fixture."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tailrace.testing.cluster import Cluster

_NAME_MOST = 180  # of the 249 characters of a topic's name


@pytest.fixture(scope="session")
def tailrace_options() -> Mapping[str, Any]:
    """What the clusters are made with; override it in a conftest.py: `return {"brokers": 3}`."""
    return {}


@pytest.fixture(scope="session")
def tailrace_cluster(tailrace_options: Mapping[str, Any]) -> Iterator[Cluster]:
    """One cluster for the whole session; `tailrace_cluster.bootstrap` is where clients connect."""
    from tailrace.testing.cluster import Cluster

    with Cluster(**tailrace_options) as cluster:
        yield cluster


@pytest.fixture
def tailrace_fresh_cluster(tailrace_options: Mapping[str, Any]) -> Iterator[Cluster]:
    """A cluster for one test, for what another test must not meet."""
    from tailrace.testing.cluster import Cluster

    with Cluster(**tailrace_options) as cluster:
        yield cluster


@pytest.fixture
def tailrace_topics(request: pytest.FixtureRequest, tailrace_cluster: Cluster) -> Iterator[Callable[..., str]]:
    """Makes topics of tailrace_cluster: the arguments are those of Cluster.create_topic without the name.

    Answers the name, which no other test has; the topic is deleted after the test.
    """
    made: list[str] = []

    def make(partitions: int = 1, *, replicas: int = -1, configs: Mapping[str, str] | None = None) -> str:
        of_test = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:_NAME_MOST]
        name = f"{of_test}-{uuid.uuid4().hex[:12]}"
        made.append(name)
        tailrace_cluster.create_topic(name, partitions, replicas=replicas, configs=configs)
        return name

    yield make
    for name in made:
        tailrace_cluster.delete_topic(name)


@pytest.fixture
def tailrace_topic(tailrace_topics: Callable[..., str]) -> str:
    """The name of a topic of tailrace_cluster with one partition, for one test."""
    return tailrace_topics()

"""Three brokers, each a process that a test can hurt. `--targets kafka` shows a script on Apache Kafka instead."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.garbage import collect_quietly, ignore_unclosed
from support.kafka_nodes import KafkaNodes
from support.nodes import Nodes
from support.replicated import ROUND, Replicated, create
from support.tailrace_nodes import TailraceNodes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ignore_unclosed(items, Path(__file__).parent)


def pytest_sessionfinish() -> None:
    collect_quietly()


def on_kafka(config: pytest.Config) -> bool:
    """Whether Kafka alone was asked for."""
    return bool(config.getoption("--targets") == "kafka")


@pytest.fixture(scope="session")
def trio(request: pytest.FixtureRequest) -> Iterator[Nodes]:
    """Three brokers behind two gateways."""
    with tempfile.TemporaryDirectory(prefix="trio-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        made = KafkaNodes(folder) if on_kafka(request.config) else TailraceNodes(folder, gateways=2, coordinators=2)
        with made as running:
            running.wait_for_all()
            yield running


@pytest.fixture
def nodes(trio: Nodes) -> Iterator[Nodes]:
    """They live before and after."""
    yield trio
    trio.heal()


@pytest.fixture
def topic(nodes: Nodes) -> Iterator[Replicated]:
    """Three partitions, each led by another broker; two of three replicas must be in sync."""
    made = create(nodes, *ROUND, word="faults", min_insync_replicas="2")
    yield made
    nodes.heal()
    made.delete()

"""One cluster for all attacks: what the first ones leave behind, the last ones meet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.abuse import Client, Seen, Watch, create_topics, table
from support.attacks import prepare
from tailrace.testing import Cluster

FOUND = pytest.StashKey[list[Seen]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--scale", type=float, default=0.1, help="sizes of the attacks; 1 is as large as a request may be")
    parser.addoption("--seed", type=int, default=1, help="of the requests that are made up; each has its own")
    parser.addoption("--requests", type=int, default=200, help="how many are made up for each cluster")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FOUND] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if found := config.stash.get(FOUND, []):
        terminalreporter.section("what one client did to the others")
        for line in table(found):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def scale(pytestconfig: pytest.Config) -> float:
    return float(pytestconfig.getoption("--scale"))


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    return int(pytestconfig.getoption("--seed"))


@pytest.fixture(scope="session")
def requests(pytestconfig: pytest.Config) -> int:
    return int(pytestconfig.getoption("--requests"))


@pytest.fixture(scope="session")
def found(pytestconfig: pytest.Config) -> list[Seen]:
    return pytestconfig.stash[FOUND]


@pytest.fixture(scope="session")
def cluster(scale: float) -> Iterator[Cluster]:
    with Cluster() as running:
        with Client(running) as client:
            assert client.answer(create_topics(["probed"]))
        prepare(running, scale)
        yield running


@pytest.fixture(scope="session")
def watch(cluster: Cluster) -> Watch:
    return Watch(cluster, "probed")

"""Fixtures of the compat scripts: a target, a client of each library, a topic of one's own."""

from collections.abc import Iterator

import pytest

from compat.version_table import Stage
from support import java_tools, on_kafka
from support.clients import CLIENTS, Client, client_class, connect
from support.garbage import collect_quietly, ignore_unclosed
from support.java_tools import JavaTools
from support.plugin import TARGETS, leave_out
from support.stage import unique
from support.targets import Target


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "client" not in metafunc.fixturenames:
        return
    needed = [name for mark in metafunc.definition.iter_markers("needs") for name in mark.args]
    able = [name for name in CLIENTS if all(hasattr(client_class(name), method) for method in needed)]
    if "assignor" in metafunc.fixturenames:
        pairs = [(name, assignor) for name in able for assignor in sorted(client_class(name).assignors)]
        metafunc.parametrize(("client", "assignor"), pairs, indirect=["client"], scope="session")
    else:
        metafunc.parametrize("client", able, indirect=True, scope="session")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*methods): calls that not every client library has")
    if config.getoption("--record-kafka"):
        config.pluginmanager.register(on_kafka.Recorder(), "tailrace-on-kafka")


@pytest.hookimpl(trylast=True)  # behind -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ignore_unclosed(items, on_kafka.COMPAT)
    writes = any(map(config.getoption, ("--write-compatibility", "--write-story", "--rewrite-golden")))
    if config.getoption("--targets") == ",".join(TARGETS) and not writes:
        known = on_kafka.known(on_kafka.count(items))
        left_out = [item for item in items if item.path in known and on_kafka.is_on_kafka(item)]
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def pytest_sessionfinish() -> None:
    collect_quietly()


@pytest.fixture(scope="session")
def clients() -> Iterator[dict[tuple[str, str], Client]]:
    """One client of each library for each target."""
    made: dict[tuple[str, str], Client] = {}
    yield made
    for client in made.values():
        client.close()


@pytest.fixture(scope="session")
def client(request: pytest.FixtureRequest, target: Target, clients: dict[tuple[str, str], Client]) -> Client:
    """A client library, connected to the target."""
    key = (request.param, target.name)
    if key not in clients:
        clients[key] = connect(request.param, target.bootstrap)
    return clients[key]


@pytest.fixture(scope="session")
def jvm() -> Iterator[JavaTools]:
    """Apache Kafka's command line tools."""
    if absent := java_tools.missing():
        leave_out(absent)
    started = JavaTools()
    yield started
    started.close()


@pytest.fixture
def topic_name() -> str:
    """A name for a topic that does not exist yet."""
    return unique("topic")


@pytest.fixture
def group() -> str:
    """A name for a group that does not exist yet."""
    return unique("group")


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

"""Four nodes of each target, one cluster for the session; every test finds them all alive."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.kafka_nodes import KafkaNodes
from support.kafka_peer import missing
from support.nodes import Nodes
from support.plugin import leave_out
from support.tailrace_nodes import TailraceNodes
from support.targets import WITHOUT_FAST_PATH

NODES = 4
KINDS: dict[str, type[KafkaNodes | TailraceNodes]] = {
    "tailrace3": TailraceNodes,
    "tailrace3p": TailraceNodes,
    "kafka": KafkaNodes,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cluster" not in metafunc.fixturenames:
        return
    chosen = metafunc.config.getoption("--targets").split(",")
    marks = {"kafka": [pytest.mark.kafka_peer]}
    only = metafunc.definition.get_closest_marker("only")
    wanted = [name for name in KINDS if name in chosen and (only is None or name.rstrip("p") in only.args)]
    rows = [pytest.param(name, marks=marks.get(name, [])) for name in wanted]
    metafunc.parametrize("cluster", rows, indirect=True, scope="session")


@pytest.fixture(scope="session")
def clusters() -> Iterator[dict[str, Nodes]]:
    """What was started."""
    started: dict[str, Nodes] = {}
    with ExitStack() as stack:
        yield started
        for nodes in started.values():
            stack.callback(shutil.rmtree, nodes.folder, ignore_errors=True)
            stack.callback(nodes.stop)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, clusters: dict[str, Nodes]) -> Nodes:
    """The target's four nodes."""
    name = request.param
    if name == "kafka" and (absent := missing()):
        leave_out(absent)
    if name not in clusters:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-nodes-"))
        clusters[name] = KINDS[name](folder, NODES, settings=WITHOUT_FAST_PATH if name == "tailrace3p" else None)
        clusters[name].start()
        clusters[name].wait_for_all()
    return clusters[name]


@pytest.fixture
def nodes(cluster: Nodes) -> Iterator[Nodes]:
    """Four nodes that live; what a test has killed or paused is alive again afterwards."""
    yield cluster
    cluster.heal()

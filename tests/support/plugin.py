"""The pytest side of the targets: options, the `target` fixture, the report.

Nothing heavy is imported before a test asks for a target: the unit layer loads this plugin too.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.report import Report

if TYPE_CHECKING:
    from support.targets import Target, Targets

TARGETS = ("tailrace1", "tailrace3", "kafka")
# tailrace1 hands sockets over and tailrace3 relays: every script meets both ways. On demand each the other way round.
# Those with a p have brokers without the fast path (broker.fast.path=false).
ON_DEMAND = ("tailrace1r", "tailrace3h", "tailrace1p", "tailrace3p")
PLAIN = "tailrace1p"  # without --targets, too, where a script says so
REPORT = pytest.StashKey[Report]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("compat")
    group.addoption("--targets", default=",".join(TARGETS), help="comma list of " + ", ".join((*TARGETS, *ON_DEMAND)))
    group.addoption("--rewrite-golden", action="store_true", help="accept Kafka's answers as the golden ones")
    group.addoption("--record-kafka", action="store_true", help="note which scripts have passed on Kafka as they are")
    group.addoption("--write-compatibility", action="store_true", help="write docs/compatibility.md from this run")
    group.addoption(
        "--write-story", action="store_true", help="keep the textbook test's answers for docs/replication.md"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kafka_peer: runs against Apache Kafka; needs Java")
    config.addinivalue_line("markers", "capability(words): what the script shows, a row of docs/compatibility.md")
    config.addinivalue_line("markers", "by(client): which client the script is, if it has no client parameter")
    config.addinivalue_line("markers", "only(*targets): the targets for which the script means something")
    config.addinivalue_line("markers", "also_plain: runs against a broker without its fast path, too")
    config.stash[REPORT] = Report()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "target" not in metafunc.fixturenames:
        return
    chosen = metafunc.config.getoption("--targets").split(",")
    if chosen == list(TARGETS) and metafunc.definition.get_closest_marker("also_plain"):
        chosen.append(PLAIN)
    only = metafunc.definition.get_closest_marker("only")
    wanted = [
        name for name in (*TARGETS, *ON_DEMAND) if name in chosen and (only is None or name.rstrip("hrp") in only.args)
    ]
    marks = {"kafka": [pytest.mark.kafka_peer]}
    rows = [pytest.param(name, marks=marks.get(name, [])) for name in wanted]
    metafunc.parametrize("target", rows, indirect=True, scope="session")


@pytest.fixture(scope="session")
def targets() -> Iterator["Targets"]:
    """All clusters of this session."""
    from support.targets import Targets

    started = Targets()
    yield started
    started.close()


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest, targets: "Targets") -> "Target":
    """One running cluster."""
    from support import kafka_peer

    if request.param == "kafka" and (absent := kafka_peer.missing()):
        leave_out(absent)
    running = targets.get(request.param)
    served = request.config.stash[REPORT].served
    if running.name not in served:
        served[running.name] = running.served()
    return running


def leave_out(absent: str) -> None:
    """Skips with the line that would install what is absent; a failure where everything is required."""
    if os.environ.get("REQUIRE_ALL") == "1":
        pytest.fail(f"left out: {absent}")
    pytest.skip(f"left out: {absent}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.when == "call" or report.outcome != "passed":
        item.config.stash[REPORT].add(item, report)
    return report  # type: ignore[return-value]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--write-compatibility"):
        session.config.stash[REPORT].write(Path(session.config.rootpath, "docs", "compatibility.md"))

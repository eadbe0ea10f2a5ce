"""The compat scripts that have passed on Apache Kafka as they are: they need not run there again until they change.

A script says what is expected of every target, and the version of Apache Kafka is one of ours to choose. So that run
shows something new only if the script is new, or what it imports of tests/, or a client, or that version.
tests/compat/on_kafka.tsv has a row for each script; `./test compat --targets kafka --record-kafka` writes them anew.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from support.commands import ROOT
from support.kafka_peer import VERSION

TESTS = ROOT / "tests"
COMPAT = TESTS / "compat"
RECORD = COMPAT / "on_kafka.tsv"
GOLDEN = "golden"
# They choose the tests and write pages from the results: what they import is no part of a question to Kafka.
_BESIDE = ("on_kafka.py", "report.py")
_TAILRACE = "tailrace_"  # how the names of modules begin that start and hurt Tailrace alone
CLIENTS = ("kafka-python", "aiokafka", "confluent-kafka")


class Passed(NamedTuple):
    """What was run: the digest of the script, and how many of its tests."""

    digest: str
    tests: int


def digest(script: Path) -> str:
    """Of the script, the fixtures above it, what these use of tests/, the clients and Kafka itself."""
    found = hashlib.sha256(VERSION.encode())
    pinned = (line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith(CLIENTS))
    found.update("\n".join(sorted(pinned)).encode())
    for file in sorted(used(script)):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def used(script: Path) -> set[Path]:
    """The script, the files of fixtures above it, what these import of tests/, and the files that all of them name."""
    left = [script, *(file for folder in {COMPAT, script.parent} if (file := folder / "conftest.py").exists())]
    found: set[Path] = set()
    while left:
        file = left.pop()
        if file in found or file.name in _BESIDE or file.name.startswith(_TAILRACE):
            continue
        found.add(file)
        if file.suffix == ".py":
            modules, words = _mentioned(file.read_text())
            left += [path for module in modules for path in _files(module)]
            left += [path for path in file.parent.iterdir() if path.name in words and path.is_file()]
            left += (COMPAT / GOLDEN).iterdir() if GOLDEN in words else ()
    return found


@functools.cache
def _mentioned(source: str) -> tuple[set[str], set[str]]:
    """The modules that a source may import, and the words of its strings: a file beside it is named by one."""
    modules: set[str] = set()
    words: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            modules |= {name.name for name in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value)
    return modules, words


def _files(module: str) -> Iterator[Path]:
    """The files below tests/ that are run when the module is imported: its own, and those of the packages above."""
    package, *_ = names = module.split(".")
    if package not in ("compat", "support"):
        return
    for end in range(1, len(names) + 1):
        path = TESTS.joinpath(*names[:end])
        yield from (file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists())


def is_on_kafka(item: pytest.Item) -> bool:
    """Whether the test is a script with Apache Kafka for its target."""
    parameters = getattr(item, "callspec", None)
    return parameters is not None and "kafka" in (parameters.params.get("target"), parameters.params.get("cluster"))


def count(items: Iterable[pytest.Item]) -> Counter[Path]:
    """How many tests each script has on Apache Kafka."""
    return Counter(item.path for item in items if is_on_kafka(item) and item.path.is_relative_to(COMPAT))


class Recorder:
    """A pytest plugin that writes the rows of the scripts whose tests have all passed, if the run has."""

    def __init__(self, record: Path = RECORD) -> None:
        self._record = record
        self._passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.outcome == "passed":
            self._passed.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == 0:
            write(self._whole(session.items), self._record)

    def _whole(self, items: Iterable[pytest.Item]) -> dict[Path, int]:
        """How many tests each script has on Apache Kafka, of the scripts all of whose tests there were run."""
        collected = list(items)
        ran = count(item for item in collected if item.nodeid in self._passed)
        return {path: tests for path, tests in count(collected).items() if ran[path] == tests}


def read(record: Path = RECORD) -> dict[str, Passed]:
    """The rows by the script's path below tests/compat."""
    rows = (line.split("\t") for line in record.read_text().splitlines()[1:]) if record.exists() else ()
    return {name: Passed(known, int(tests)) for name, known, tests in rows}


def write(passed: Mapping[Path, int], record: Path = RECORD) -> None:
    """Rewrites the rows of these scripts, with the number of tests that have passed; forgets scripts that are gone."""
    fresh = {str(path.relative_to(COMPAT)): Passed(digest(path), tests) for path, tests in passed.items()}
    rows = {name: row for name, row in read(record).items() if (COMPAT / name).exists()} | fresh
    lines = [f"{name}\t{row.digest}\t{row.tests}\n" for name, row in sorted(rows.items())]
    record.write_text("script\tdigest\ttests\n" + "".join(lines))


def known(scripts: Mapping[Path, int], record: Path = RECORD) -> set[Path]:
    """Those of the scripts that have passed with so many tests, as they are."""
    rows = read(record)
    return {
        path
        for path, tests in scripts.items()
        if rows.get(str(path.relative_to(COMPAT))) == Passed(digest(path), tests)
    }

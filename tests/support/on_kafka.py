"""The compat scripts that have passed on Apache Kafka as they are: they need not run there again until they change.

A script says what is expected of every target, and the version of Apache Kafka is one of ours to choose. So that run
shows something new only if the script is new, or a client, or that version. tests/compat/on_kafka.tsv has a row for
each script; `./test compat --targets kafka --record-kafka` writes them anew.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from support.commands import ROOT
from support.kafka_peer import VERSION

COMPAT = ROOT / "tests" / "compat"
RECORD = COMPAT / "on_kafka.tsv"
_IMPORTED = re.compile(r"^from compat\.(\w+) import", re.MULTILINE)
CLIENTS = ("kafka-python", "aiokafka", "confluent-kafka")


class Passed(NamedTuple):
    """What was run: the digest of the script, and how many of its tests."""

    digest: str
    tests: int


def digest(script: Path) -> str:
    """Of the script and what it imports of its folder, of fixtures, golden answers, the clients and Kafka itself."""
    found = hashlib.sha256(VERSION.encode())
    pinned = (line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith(CLIENTS))
    found.update("\n".join(sorted(pinned)).encode())
    golden = (COMPAT / "golden").iterdir() if "golden" in script.read_text() else ()
    for file in (*sorted(_used(script)), *sorted(golden)):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _used(script: Path) -> set[Path]:
    """The script, the files of fixtures above it, and what these import of tests/compat."""
    left = [script, *(file for folder in {COMPAT, script.parent} if (file := folder / "conftest.py").exists())]
    found: set[Path] = set()
    while left:
        file = left.pop()
        if file not in found:
            found.add(file)
            left += [COMPAT / f"{name}.py" for name in _IMPORTED.findall(file.read_text())]
    return found


def is_on_kafka(item: pytest.Item) -> bool:
    """Whether the test is a script with Apache Kafka for its target."""
    parameters = getattr(item, "callspec", None)
    return parameters is not None and "kafka" in (parameters.params.get("target"), parameters.params.get("cluster"))


def count(items: Iterable[pytest.Item]) -> Counter[Path]:
    """How many tests each script has on Apache Kafka."""
    return Counter(item.path for item in items if is_on_kafka(item) and item.path.is_relative_to(COMPAT))


class Recorder:
    """A pytest plugin that writes the rows of the scripts that have passed in a run."""

    def __init__(self) -> None:
        self._others: set[str] = set()  # tests that have failed, or were left out

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self._others.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        wrong = count(item for item in session.items if item.nodeid in self._others)
        write({path: tests for path, tests in count(session.items).items() if path not in wrong})


def read(record: Path = RECORD) -> dict[str, Passed]:
    """The rows by the script's path below tests/compat."""
    rows = (line.split("\t") for line in record.read_text().splitlines()[1:]) if record.exists() else ()
    return {name: Passed(known, int(tests)) for name, known, tests in rows}


def write(passed: Mapping[Path, int], record: Path = RECORD) -> None:
    """Rewrites the rows of these scripts, with the number of tests that have passed; forgets scripts that are gone."""
    rows = {name: row for name, row in read(record).items() if (COMPAT / name).exists()}
    rows |= {str(path.relative_to(COMPAT)): Passed(digest(path), tests) for path, tests in passed.items()}
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

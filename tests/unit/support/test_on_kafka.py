"""Which compat scripts need not run on Apache Kafka again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from support import on_kafka

pytest_plugins = ["pytester"]

FILES = {
    "compat/golden/answers.json": "{}",
    "compat/conftest.py": "from support import fixtures, on_kafka\n",
    "compat/shapes.py": "from support.clients.base import Client\n",
    "compat/replication/story.py": "SHAPE = 1\n",
    "compat/test_raw.py": (
        "from compat.replication.story import SHAPE\n"
        "from compat.shapes import Client\n"
        "FILE = Path(__file__).with_name('golden') / 'answers.json'\n"
        "def test_it(target): ...\n"
    ),
    "support/__init__.py": "",
    "support/clients/__init__.py": "",
    "support/clients/base.py": "class Client: ...\n",
    "support/fixtures.py": "def target():\n    from support.targets import SETTINGS\n",
    "support/targets.py": "import support.tools\nfrom support.tailrace_nodes import Nodes\nSETTINGS = {}\n",
    "support/tools.py": "SOURCE = Path(__file__).with_name('Tools.java')\n",
    "support/Tools.java": "class Tools {}\n",
}
OTHERS = ("compat/differences.py", "support/on_kafka.py", "support/report.py", "support/tailrace_nodes.py")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in a tree of its own, with fixtures, helpers, a program in Java and a golden answer."""
    monkeypatch.setattr(on_kafka, "TESTS", tmp_path)
    monkeypatch.setattr(on_kafka, "COMPAT", tmp_path / "compat")
    for name, text in {**FILES, **dict.fromkeys(OTHERS, "")}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "compat" / "test_raw.py"


@pytest.mark.parametrize("changed", FILES)
def test_a_script_that_has_passed_is_known_until_it_or_what_it_uses_changes(script: Path, changed: str) -> None:
    record = script.parent / "on_kafka.tsv"
    assert on_kafka.known({script: 2}, record) == set()
    on_kafka.write({script: 2}, record)
    assert on_kafka.known({script: 2}, record) == {script}
    with (script.parents[1] / changed).open("a") as file:
        file.write("\n")
    assert on_kafka.known({script: 2}, record) == set()


@pytest.mark.parametrize("changed", OTHERS)
def test_what_asks_kafka_nothing_changes_nothing(script: Path, changed: str) -> None:
    before = on_kafka.digest(script)
    (script.parents[1] / changed).write_text("DIFFERENT = 1\n")
    assert on_kafka.digest(script) == before


def test_a_script_with_other_tests_than_have_passed_is_not_known(script: Path) -> None:
    record = script.parent / "on_kafka.tsv"
    on_kafka.write({script: 2}, record)
    assert on_kafka.known({script: 3}, record) == set()


def test_another_version_of_kafka_is_another_digest(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = on_kafka.digest(script)
    monkeypatch.setattr(on_kafka, "VERSION", "0.0.0")
    assert on_kafka.digest(script) != before


def test_a_script_that_is_gone_is_forgotten(script: Path) -> None:
    record = script.parent / "on_kafka.tsv"
    on_kafka.write({script: 2}, record)
    other = script.with_name("test_other.py")
    script.rename(other)
    on_kafka.write({other: 1}, record)
    assert set(on_kafka.read(record)) == {"test_other.py"}


def test_every_row_of_the_record_is_of_a_script_that_is_there() -> None:
    assert [name for name in on_kafka.read() if not (on_kafka.COMPAT / name).exists()] == []


def test_the_clients_and_both_clusters_settings_count_for_each_recorded_script() -> None:
    helpers = {"raw.py", "targets.py", "kafka_peer.py", "plugin.py", "stage.py", "clients/base.py", "ToolServer.java"}
    files = {on_kafka.TESTS / "support" / name for name in helpers}
    assert [name for name in on_kafka.read() if not files <= on_kafka.used(on_kafka.COMPAT / name)] == []


ALONE = ("-p", "no:randomly", "-p", "no:asyncio", "-p", "no:schemathesis")  # a run as small as can be
PASSES = """import pytest


@pytest.mark.parametrize("target", ["kafka", "tailrace1"])
@pytest.mark.parametrize("number", [1, 2])
def test_it(target, number): ...
"""
STOPS = PASSES.replace("...", "\n    if number == 2:\n        {}")


@pytest.mark.parametrize(
    ("script", "options", "recorded"),
    [
        (PASSES, (), 2),
        (PASSES, ("--collect-only",), None),
        (PASSES, ("-k", "kafka and 1"), 1),  # fewer than the script has: it is not known by them
        (STOPS.format("pytest.fail()"), (), None),
        (STOPS.format("pytest.fail()"), ("-x",), None),
        (STOPS.format("pytest.skip()"), (), None),
        (STOPS.format("raise KeyboardInterrupt"), (), None),
    ],
)
def test_a_script_is_recorded_when_all_its_tests_on_kafka_were_run_and_passed(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    options: Sequence[str],
    recorded: int | None,
) -> None:
    monkeypatch.setattr(on_kafka, "COMPAT", pytester.path)
    pytester.makepyfile(test_raw=script)
    record = pytester.path / "on_kafka.tsv"
    recorder = on_kafka.Recorder(record)
    pytester.inline_run(*ALONE, *options, plugins=[recorder], no_reraise_ctrlc=True)
    assert {name: row.tests for name, row in on_kafka.read(record).items()} == (
        {} if recorded is None else {"test_raw.py": recorded}
    )


def test_a_run_that_fails_records_no_script(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_kafka, "COMPAT", pytester.path)
    pytester.makepyfile(test_fails=STOPS.format("pytest.fail()"), test_raw=PASSES)
    record = pytester.path / "on_kafka.tsv"
    pytester.inline_run(*ALONE, plugins=[on_kafka.Recorder(record)])
    assert not record.exists()

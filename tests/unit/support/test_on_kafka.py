"""Which compat scripts need not run on Apache Kafka again."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import on_kafka


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in a folder of its own, with a helper and a golden answer."""
    monkeypatch.setattr(on_kafka, "COMPAT", tmp_path)
    (tmp_path / "golden").mkdir()
    (tmp_path / "golden" / "answers.json").write_text("{}")
    (tmp_path / "shapes.py").write_text("SHAPE = 1\n")
    path = tmp_path / "test_raw.py"
    path.write_text("from compat.shapes import SHAPE\n\n\ndef test_it(target): ...  # golden\n")
    return path


@pytest.mark.parametrize("changed", ["test_raw.py", "shapes.py", "golden/answers.json"])
def test_a_script_that_has_passed_is_known_until_it_or_what_it_uses_changes(script: Path, changed: str) -> None:
    record = script.parent / "on_kafka.tsv"
    assert on_kafka.known({script: 2}, record) == set()
    on_kafka.write({script: 2}, record)
    assert on_kafka.known({script: 2}, record) == {script}
    with (script.parent / changed).open("a") as file:
        file.write("\n")
    assert on_kafka.known({script: 2}, record) == set()


def test_what_the_script_does_not_import_changes_nothing(script: Path) -> None:
    before = on_kafka.digest(script)
    script.with_name("differences.py").write_text("DIFFERENT = 1\n")
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

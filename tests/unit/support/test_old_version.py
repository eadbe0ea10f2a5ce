"""tests/support/old_version.py: which version the tests of an upgrade begin with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.old_version import BASELINE, VARIABLE, newest_release, revision


@pytest.fixture(autouse=True)
def nobody_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path)
    return tmp_path


def git(repository: Path, *arguments: str) -> None:
    person = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *person, *arguments], cwd=repository, check=True, capture_output=True)


def commit(repository: Path) -> None:
    git(repository, "commit", "--quiet", "--allow-empty", "--message=one")


@pytest.mark.parametrize(
    ("tags", "newest"),
    [
        ([], None),
        (["v0.1.0"], "v0.1.0"),
        (["v0.10.0", "v0.9.1"], "v0.10.0"),
        (["v1.0.0-rc1", "v1.0.0rc2", "v0.9.0"], "v0.9.0"),
        (["v1", "v0.9.0", "very-old"], "v1"),
    ],
)
def test_the_newest_release_has_the_highest_numbers(tags: list[str], newest: str | None) -> None:
    assert newest_release(tags) == newest


def test_without_a_release_it_is_the_baseline(repository: Path) -> None:
    assert revision(repository) == BASELINE
    assert revision(repository, "another") == "another"


def test_it_is_the_last_release_that_this_version_is_built_on(repository: Path) -> None:
    git(repository, "tag", "v0.1.0")
    commit(repository)
    git(repository, "switch", "--quiet", "--create", "other")
    commit(repository)
    git(repository, "tag", "v0.2.0")  # of another branch
    git(repository, "switch", "--quiet", "main")
    commit(repository)
    assert revision(repository) == "v0.1.0"
    git(repository, "tag", "v0.1.1")  # of this very version
    assert revision(repository) == "v0.1.0"


def test_a_person_may_name_another_one(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "v0.0.7")
    assert revision(repository) == "v0.0.7"

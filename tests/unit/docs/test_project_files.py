"""What pyproject.toml, the changelog and the licence say agrees."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tailrace import __version__

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_changelog_begins_with_the_version_of_the_code() -> None:
    first = re.search(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert first and first[1] == __version__


def test_the_licence_is_the_named_one() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    (name,) = PROJECT["license-files"]
    assert "Apache License" in (ROOT / name).read_text(encoding="utf-8")[:200]


def test_all_is_every_extra_for_users() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    assert set(re.findall(r"[a-z]+", everything.partition("[")[2])) == set(extras) - {"all", "dev"}


def test_every_python_that_is_named_is_supported() -> None:
    oldest = re.fullmatch(r">=3\.(\d+)", PROJECT["requires-python"])
    assert oldest
    named = [int(m[1]) for line in PROJECT["classifiers"] if (m := re.fullmatch(r".*:: 3\.(\d+)", line))]
    assert named == list(range(int(oldest[1]), int(oldest[1]) + len(named)))

"""What pyproject.toml, the changelog and the licence say agrees."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tailrace import __version__

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
SECTIONS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
MOST_WORDS = 35  # of an entry: the page that speaks of the change says the rest


def test_the_changelog_begins_with_the_version_of_the_code() -> None:
    first = re.search(r"^## \[(\S+)\] - ", CHANGELOG, re.MULTILINE)
    assert first and first[1] == __version__


def test_the_changelog_has_the_sections_of_keep_a_changelog_in_order_and_short_entries() -> None:
    for version in CHANGELOG.split("\n## ")[1:]:
        named = re.findall(r"^### (.+)$", version, re.MULTILINE)
        assert named == [section for section in SECTIONS if section in named]
        before, *entries = re.split(r"^- ", version, flags=re.MULTILINE)
        assert entries and named[0] in before
        texts = (entry.partition("\n#")[0] for entry in entries)
        assert [text for text in texts if len(text.split()) > MOST_WORDS] == []


def test_the_licence_is_the_named_one() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    (name,) = PROJECT["license-files"]
    assert "Apache License" in (ROOT / name).read_text(encoding="utf-8")[:200]


def test_all_is_every_extra_for_users() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    assert set(re.findall(r"[a-z]+", everything.partition("[")[2])) == set(extras) - {
        "all",
        "dev",
        "spark-tests",
        "browser-tests",
    }


def test_every_python_that_is_named_is_supported() -> None:
    oldest = re.fullmatch(r">=3\.(\d+)", PROJECT["requires-python"])
    assert oldest
    named = [int(m[1]) for line in PROJECT["classifiers"] if (m := re.fullmatch(r".*:: 3\.(\d+)", line))]
    assert named == list(range(int(oldest[1]), int(oldest[1]) + len(named)))

"""The versions of constraints.txt, against the list of those with a known hole that .ci/vulnerable.tsv keeps."""

from __future__ import annotations

from packaging.version import Version

from support.commands import ROOT

PINNED = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
ROWS = [line.split("\t") for line in (ROOT / ".ci" / "vulnerable.tsv").read_text().splitlines()[1:]]


def test_no_pinned_version_is_older_than_the_one_that_mended_a_hole() -> None:
    holes = {
        f"{name}=={PINNED[name]}: {advisory}"
        for name, fixed, advisory in ROWS
        if Version(PINNED[name]) < Version(fixed)
    }
    assert not holes


def test_the_list_is_of_packages_that_are_pinned() -> None:
    assert {name for name, _, _ in ROWS} <= set(PINNED)

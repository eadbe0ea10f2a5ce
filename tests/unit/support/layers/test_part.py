"""One part of a layer: what it counts, what it prints, and how several are summed up."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.layers import part
from support.layers.part import Part, Result
from support.ports import HIGHEST, LOWEST

PRINTS = (sys.executable, "-c", "print('a word')")
FAILS = (sys.executable, "-c", "print('why'); raise SystemExit(3)")
COMPUTES = (sys.executable, "-c", "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(2**21))'])")


def test_the_output_of_a_part_that_passes_is_kept_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = part.run(Part("gate", (PRINTS, PRINTS), 1), {}, tmp_path, live=False)
    assert (result.failed, result.counts) == ([], Counter(passed=2))
    assert "\na word" not in capsys.readouterr().out
    assert (tmp_path / "gate-1.txt").read_text() == "a word\na word\n"


def test_the_output_of_a_part_that_fails_is_shown_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = part.run(Part("gate", (PRINTS, FAILS)), {}, tmp_path, live=False)
    assert result.failed == [part.shown(FAILS)]
    assert result.counts == Counter(passed=1, failed=1)
    assert "\na word\nwhy\n" in capsys.readouterr().out


def test_a_part_alone_is_shown_as_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part.run(Part("gate", (PRINTS,)), {}, tmp_path, live=True)
    assert capsys.readouterr().out.count("\na word\n") == 1


def test_the_processor_time_is_that_of_the_children_too(tmp_path: Path) -> None:
    assert part.run(Part("gate", (COMPUTES,)), {}, tmp_path, live=False).processor_seconds > 0


def test_what_pytest_counts_is_summed_up_in_one_line() -> None:
    one, other, none = (
        Result(Part("a", ()), counts=part.counts(line))
        for line in (
            "== 1 failed, 12 passed, 2 skipped, 3 warnings in 4.01s (0:00:04) ==",
            "40 passed, 2 errors in 1.00s",
            "no tests ran in 0.01s",
        )
    )
    assert part.total([one, other, none]) == "52 passed, 1 failed, 2 skipped, 2 errors"
    assert part.total([]) == "0 passed, 0 failed"


def test_slots_have_ports_of_their_own() -> None:
    ranges = [tuple(map(int, part.ports(slot, 3).split("-"))) for slot in range(3)]
    assert ranges[0][0] == LOWEST and ranges[-1][1] <= HIGHEST
    assert all(below[1] <= above[0] for below, above in itertools.pairwise(ranges))

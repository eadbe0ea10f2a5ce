"""Slots that take parts from the two ends of one list."""

from __future__ import annotations

import threading

import pytest

from support.layers.slots import run_all


def nothing() -> None:
    """Nothing runs that has to be stopped."""


def test_every_part_runs_once() -> None:
    parts = list(range(20))
    assert sorted(run_all(parts, 3, lambda part, _: part, nothing)) == parts


def test_the_first_slot_takes_from_the_front_and_the_others_from_the_back() -> None:
    all_began = threading.Barrier(3)

    def run(part: str, slot: int) -> tuple[str, bool]:
        all_began.wait()  # every slot has taken one, and takes the next when the others have theirs
        return part, slot == 0

    results = run_all(["gate", "unit", "compat", "fault", "containers", "integration"], 3, run, nothing)
    assert {part for part, first in results if first} == {"gate", "unit"}


def test_one_slot_keeps_the_order() -> None:
    assert run_all("abc", 1, lambda part, _: part, nothing) == ["a", "b", "c"]


def test_where_a_part_raises_no_other_begins_and_those_that_run_are_stopped() -> None:
    began: list[str] = []
    both_began = threading.Barrier(2)
    stopped = threading.Event()

    def run(part: str, _: int) -> None:
        began.append(part)
        both_began.wait()
        if part == "a":
            raise KeyboardInterrupt
        stopped.wait()

    with pytest.raises(KeyboardInterrupt):
        run_all("abcdef", 2, run, stopped.set)
    assert sorted(began) == ["a", "f"]

"""PartRows and what has changed in them: the model is the rows that a reader has after each change that it was sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tailrace_gateway.rest.console.rows import GONE_MAX, PartRows, Row, RowChange

STATES = st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)), min_size=1, max_size=8)


def applied(held: dict[str, Row], change: RowChange) -> dict[str, Row]:
    """What a page has after a change."""
    after = {} if change.reset else dict(held)
    after.update(change.rows)
    for key in change.gone:
        after.pop(key, None)
    return after


@given(STATES, st.lists(st.integers(0, 7), max_size=4))
def test_a_reader_of_any_revision_comes_to_the_same_rows(states: list[dict[str, int]], stops: list[int]) -> None:
    rows = PartRows()
    held: dict[str, Row] = {}
    seen = 0
    for number, state in enumerate(states):
        rows.replace({key: {"value": value} for key, value in state.items()}, number + 1)
        if number in stops or number == len(states) - 1:
            held, seen = applied(held, rows.since(seen)), rows.revision
    assert held == {key: {"value": value} for key, value in states[-1].items()}


def test_only_what_changed_is_told() -> None:
    rows = PartRows()
    rows.replace({"a": {"n": 1}, "b": {"n": 1}}, 1)
    assert rows.replace({"a": {"n": 2}, "b": {"n": 1}}, 2)
    assert rows.since(1) == RowChange(False, [("a", {"n": 2})], [])
    assert not rows.replace({"a": {"n": 2}, "b": {"n": 1}}, 3)
    assert not rows.since(rows.revision)


def test_nothing_is_told_before_the_first_look_and_an_empty_one_is() -> None:
    rows = PartRows()
    assert not rows.since(0)
    rows.replace({}, 1)
    assert rows.since(0) == RowChange(True, [], [])
    assert not rows.since(rows.revision)


def test_a_reader_of_what_was_watched_before_begins_anew() -> None:
    rows = PartRows(born=7)
    rows.replace({"a": {"n": 1}}, 8)
    assert rows.since(7).reset
    assert rows.since(99).reset
    assert not rows.since(8)


def test_a_reader_that_missed_too_many_keys_that_went_away_begins_anew() -> None:
    rows = PartRows()
    rows.replace({str(n): {} for n in range(GONE_MAX + 1)}, 1)
    rows.replace({}, 2)
    assert rows.since(1).reset
    assert not rows.since(2)

"""The search language: what a search means, and what the index must have for it."""

from __future__ import annotations

import pytest

from tailrace_spark.logs.options import moment_us
from tailrace_spark.logs.query import And, Not, Or, Phrase, Query, Term, lookups, parse, possible, uses_index
from tailrace_spark.logs.search_job import moment
from tailrace_spark.refusal import Refusal

A, B, C = Term("a"), Term("b"), Term("c")
MEANINGS: dict[str, Query] = {
    "error": Term("error"),
    "Error AND Timeout": And((Term("error"), Term("timeout"))),
    "a b": And((A, B)),
    "a OR b c": Or((A, And((B, C)))),
    "(a OR b) AND c": And((Or((A, B)), C)),
    "a NOT b": And((A, Not(B))),
    "NOT NOT a": Not(Not(A)),
    "or": Term("or"),
    "ORacle": Term("oracle"),
    "a  OR(b)": Or((A, B)),
    'NOT"b"': Not(B),
    '"connection reset"': Phrase("connection reset"),
    '"reset"': Term("reset"),
    "time*": Term("time", prefix=True),
    "10.0.0.9,": Term("10.0.0.9"),
    "service:Cart": Term("service:cart"),
    "k=v": Phrase("k=v"),
    "x" * 120: Term("x" * 100),
}
REFUSED = {  # and where
    "": ("lacks a word", 0),
    "a AND": ("lacks a word", 5),
    "OR a": ("lacks a word", 0),
    "a OR AND b": ("lacks a word", 5),
    "NOT": ("lacks a word", 3),
    "(a": ("nothing closes", 2),
    "(a OR (b)": ("nothing closes", 9),
    "a)": ("nothing opens", 1),
    'b "a': ("without its second", 2),
    "()": ("lacks a word", 1),
}


@pytest.mark.parametrize("text", MEANINGS)
def test_a_search_has_one_meaning(text: str) -> None:
    assert parse(text) == MEANINGS[text]


@pytest.mark.parametrize("text", REFUSED)
def test_half_a_search_is_refused_and_its_place_shown(text: str) -> None:
    why, at = REFUSED[text]
    with pytest.raises(Refusal) as refused:
        parse(text)
    sentence, shown, mark = str(refused.value).split("\n")
    assert why in sentence
    assert (shown, mark) == (f"  {text}", f"  {' ' * at}^")


def test_what_the_index_is_asked() -> None:
    query = parse('a (b OR "c d") NOT e')
    assert lookups(query) == (A, B, C, Term("d"))
    assert possible(query, {A, B}) and possible(query, {A, C, Term("d")})
    assert not possible(query, {A, C}) and not possible(query, {B})
    assert uses_index(query)


@pytest.mark.parametrize("text", ["NOT a", "a OR NOT b", '"..."'])
def test_a_search_that_any_block_may_answer_needs_no_index(text: str) -> None:
    assert not uses_index(parse(text))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 1_000_000 - 7200),
        ("90s", 1_000_000 - 90),
        ("1w", 1_000_000 - 604_800),
        ("1970-01-02", 86_400),
        ("1970-01-01T02:00+01:00", 3600),
        ("1970-01-01T00:00:00.5Z", 0.5),
    ],
)
def test_a_moment_is_so_long_ago_or_a_time(text: str, seconds: float) -> None:
    assert moment_us(text, now_us=1_000_000_000_000) == seconds * 1_000_000


@pytest.mark.parametrize("text", ["yesterday", "2 hours", "-2h", "2026-13-01"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match=rf"--since '{text}' is no time; for example --since 2h"):
        moment("--since", text)

"""Regular expressions of subscriptions, as RE2 understands them."""

from __future__ import annotations

import pytest

from tailrace.errors import ApiError, ErrorCode
from tailrace_coordinator.topic_regex_resolver import MOST_NAME_BYTES, compiled, matches


def test_the_whole_name_must_match() -> None:
    assert matches(["orders"], ["orders", "orders-eu", "my-orders"]) == {"orders": ("orders",)}
    assert matches(["(?i)ORD.*s"], ["orders", "bills"]) == {"(?i)ORD.*s": ("orders",)}


@pytest.mark.parametrize("regex", ["(", "a**b[", "(?=x)", r"(a)\1", "(x{1000}){1000}"])
def test_an_expression_that_cannot_be(regex: str) -> None:
    with pytest.raises(ApiError) as refused:
        compiled(regex)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.message is not None
    assert refused.value.message.startswith(f"SubscribedTopicRegex `{regex}` is not a valid regular expression: ")


def test_an_expression_that_stalls_other_engines_takes_no_time() -> None:
    assert matches(["(a|a)*(a|a)*(a|a)*b"], ["a" * 249]) == {"(a|a)*(a|a)*(a|a)*b": ()}


def test_the_length_of_an_expression_is_bounded() -> None:
    compiled("a" * 256)
    with pytest.raises(ApiError) as refused:
        compiled("a" * 257)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.message == "SubscribedTopicRegex has 257 characters, the most are 256."


def test_an_expression_that_is_refused_has_no_topics_and_the_others_have_theirs() -> None:
    assert matches(["(", "orders"], ["orders"]) == {"(": (), "orders": ("orders",)}


def test_an_expression_that_is_refused_is_complained_of() -> None:
    complaints: list[tuple[str, str]] = []
    matches(["a" * 257, "b"], ["b"], complain=lambda *said: complaints.append(said))
    why = "matches no topic: SubscribedTopicRegex has 257 characters, the most are 256."
    assert complaints == [("a" * 257, why)]


def test_the_topics_of_all_expressions_of_a_group_are_bounded() -> None:
    complaints: list[tuple[str, str]] = []
    names = [f"{number:0100}" for number in range(MOST_NAME_BYTES // 100 + 1)]
    found = matches(["0+", ".*", ".+"], names, complain=lambda *said: complaints.append(said))
    assert found == {"0+": (names[0],), ".*": tuple(names[:-2]), ".+": ()}
    assert [expression for expression, _ in complaints] == [".*", ".+"]


def test_topics_that_the_member_may_not_know_do_not_match() -> None:
    asked: list[str] = []

    def may_describe(name: str) -> bool:
        asked.append(name)
        return name != "orders-secret"

    found = matches(["orders.*", ".*"], ["orders", "orders-secret", "x"], may_describe)
    assert found == {"orders.*": ("orders",), ".*": ("orders", "x")}
    assert sorted(asked) == ["orders", "orders-secret", "x"]

"""Regular expressions of subscriptions, as RE2 understands them."""

from __future__ import annotations

import pytest

from tailrace.errors import ApiError, ErrorCode
from tailrace_coordinator.topic_regex_resolver import compiled, matches


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

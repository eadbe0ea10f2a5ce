"""Topics by a regular expression of RE2."""

import pytest

from tailrace.reading.topic_regex import matching_topics

NAMES = ("orders", "orders-eu", "logs", "borders")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("orders.*", ["orders", "orders-eu"]), ("logs", ["logs"]), ("nope", []), (".*", sorted(NAMES))],
)
def test_the_whole_name_matches(expression: str, expected: list[str]) -> None:
    assert matching_topics(expression, NAMES) == expected


@pytest.mark.parametrize("expression", ["(", r"(a)\1", "x" * 257, "((a{100}){100}){100}"])
def test_what_is_no_expression_or_too_large_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"regular expression|256 characters"):
        matching_topics(expression, NAMES)

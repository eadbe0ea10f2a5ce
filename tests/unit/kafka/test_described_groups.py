"""Groups of either kind as one value."""

from __future__ import annotations

import pytest

from tailrace.kafka.described_groups import is_of_another_kind


@pytest.mark.parametrize(
    ("message", "expected"),
    [("Group g is not a classic group.", True), ("Group g not found.", False), (None, False)],
)
def test_only_words_tell_a_group_of_another_kind_from_none(message: str | None, expected: bool) -> None:
    assert is_of_another_kind(message) is expected

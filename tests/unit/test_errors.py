"""ApiError: what a client is told."""

import pytest

from tailrace.errors import MOST_MESSAGE_CHARS, ApiError, ErrorCode


@pytest.mark.parametrize(
    ("length", "told"), [(MOST_MESSAGE_CHARS, MOST_MESSAGE_CHARS), (32_767, MOST_MESSAGE_CHARS + 1)]
)
def test_a_sentence_that_quotes_a_long_name_is_cut(length: int, told: int) -> None:
    refused = ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "n" * length)
    assert refused.message is not None
    assert len(refused.message) == told
    assert len(str(refused)) < 2 * MOST_MESSAGE_CHARS


def test_an_error_may_have_no_sentence() -> None:
    assert ApiError(ErrorCode.NOT_COORDINATOR).message is None

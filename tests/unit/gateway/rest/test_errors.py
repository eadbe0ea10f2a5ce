"""Kafka's error codes as answers over HTTP."""

from __future__ import annotations

import pytest

from tailrace.errors import ErrorCode
from tailrace_gateway.rest.errors import FORBIDDEN, translate

REFUSALS = [code for code in ErrorCode if code.name.endswith("_AUTHORIZATION_FAILED")]


@pytest.mark.parametrize("code", REFUSALS)
def test_a_right_that_a_user_has_not_is_forbidden_whatever_it_is_about(code: ErrorCode) -> None:
    assert (translate(code).status, translate(code).error_code) == (403, FORBIDDEN)

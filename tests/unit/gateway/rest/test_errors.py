"""Kafka's error codes as answers over HTTP."""

from __future__ import annotations

import random

import httpx
import pytest

from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace.errors import ErrorCode
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.errors import FORBIDDEN, translate
from tailrace_gateway.rest.hosts import HostRules

REFUSALS = [code for code in ErrorCode if code.name.endswith("_AUTHORIZATION_FAILED")]


@pytest.mark.parametrize("code", REFUSALS)
def test_a_right_that_a_user_has_not_is_forbidden_whatever_it_is_about(code: ErrorCode) -> None:
    assert (translate(code).status, translate(code).error_code) == (403, FORBIDDEN)


async def test_a_fault_of_the_gateway_has_the_shape_of_every_refusal(backend: MemoryBackend) -> None:
    app = create_app(backend, ManualClock(), random.Random(1), HostRules(["here"]))
    backend.fail_next = ZeroDivisionError("a fault")
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
        answer = await http.post("/v3/clusters/memory/topics", json={"topic_name": "t"})
    assert (answer.status_code, answer.json()["error_code"]) == (500, 500)
    assert "a fault" not in answer.text

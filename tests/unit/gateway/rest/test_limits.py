"""Bodies of JSON have a ceiling, so that none holds the event loop: 6 s of checks in 2 MiB before."""

from __future__ import annotations

import random

import httpx
import pytest
from fastapi.routing import APIRoute

from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.hosts import HostRules
from tailrace_gateway.rest.limits import TOKENS_MAX, LimitedRoute, has_more_tokens

AS_JSON = {"content-type": "application/json"}
ALTER = "/v3/clusters/memory/quotas:alter"


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (b"", 0),
        (b"12", 0),
        (b'"a,b{["', 2),
        (b'{"a": [1, 2, "x"]}', 8),
        (rb'"\"\\,"', 4),
        (b'"never ends [[[[', 1),
    ],
)
def test_tokens_are_counted_outside_of_strings(body: bytes, tokens: int) -> None:
    assert not has_more_tokens(body, tokens)
    assert not tokens or has_more_tokens(body, tokens - 1)


@pytest.mark.parametrize("row", ["{}", "1", "[]", '"k"'])
async def test_a_body_above_the_ceiling_is_refused_before_it_is_parsed(
    row: str, http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    never_ends = f'{{"data": [{",".join([row] * TOKENS_MAX)}'
    answer = await http.post(ALTER, content=never_ends, headers=AS_JSON)
    assert answer.status_code == 413
    assert str(TOKENS_MAX) in answer.json()["message"]
    assert not backend.asked


async def test_a_thousand_quotas_are_set_by_one_request(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    rows = [
        {
            "entity": [{"entity_type": "client-id", "entity_name": f"a,{n}"}],
            "name": "producer_byte_rate",
            "value": n + 1,
        }
        for n in range(1_000)
    ]
    answer = await http.post(ALTER, json={"data": rows})
    assert answer.status_code == 204
    ((_, asked),) = backend.asked
    assert len(asked.entries) == 1_000


async def test_of_many_wrong_rows_the_first_is_the_answer(http: httpx.AsyncClient) -> None:
    answer = await http.post(ALTER, json={"data": [{}] * 9_000})
    assert (answer.status_code, answer.json()["message"]) == (400, "Bad Request: data.0.entity: Field required")


def test_every_route_that_takes_a_body_has_the_ceiling() -> None:
    app = create_app(MemoryBackend(), ManualClock(), random.Random(1), HostRules(["here"]))
    routes = [route for route in app.routes if isinstance(route, APIRoute) and route.body_field is not None]
    assert len(routes) > 5
    assert [route.path for route in routes if not isinstance(route, LimitedRoute)] == []

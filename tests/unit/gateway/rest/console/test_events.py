"""The route of the stream: what a page may ask for, and whose rights its rows need."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx
import pytest

from support.authorizers import Recorder
from support.rest_backend import MemoryBackend
from tailrace.runtime.clock import SystemClock
from tailrace_gateway.rest.access.rest_access import RestAccess
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.console import hub
from tailrace_gateway.rest.hosts import HostRules


@pytest.fixture(autouse=True)
def short_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "STREAM_MS", 300)
    monkeypatch.setattr(hub, "BEAT_MS", 500)


async def rows_of(backend: MemoryBackend, access: RestAccess, part: str) -> dict[str, Any]:
    """The rows of a part in a stream's first answer with some."""
    app = create_app(backend, SystemClock(), random.Random(1), HostRules(["here"]), access)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        for _ in range(1_000):
            text = (await client.get("/console/events", params={"part": f"0:{part}"})).text
            for event in text.split("\n\n"):
                if event.startswith("event: rows"):
                    return dict(json.loads(event.partition("data: ")[2])["rows"])
    raise AssertionError


async def test_a_page_sees_the_topics_that_its_user_may_describe() -> None:
    backend = MemoryBackend()
    for name in ("orders", "secrets"):
        backend.set_topic(name, 1)
    allowed = Recorder(lambda asked: asked.name == "orders")
    assert set(await rows_of(backend, RestAccess(authorizer=allowed), "topics")) == {"orders"}
    assert set(await rows_of(backend, RestAccess(), "topics")) == {"orders", "secrets"}


@pytest.mark.parametrize(
    "part",
    ["topics", "x:topics", "9" * 5_000 + ":topics", "0:nothing", "0:topic", "0:topics:a", "0:topic:" + "x" * 40_000],
)
async def test_a_part_that_there_is_not_is_refused(http: httpx.AsyncClient, part: str) -> None:
    answer = await http.get("/console/events", params={"part": part})
    assert answer.status_code == 400
    assert answer.json()["error_code"] in {400, 40002}


async def test_a_page_watches_few_parts(http: httpx.AsyncClient) -> None:
    many: list[tuple[str, str | int | float | bool | None]] = [("part", f"0:topic:{n}") for n in range(9)]
    assert (await http.get("/console/events", params=many)).status_code == 400
    assert (await http.get("/console/events")).status_code == 400


async def test_what_is_refused_is_refused_before_the_stream_begins(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "PARTS_MAX", 1)
    two: list[tuple[str, str | int | float | bool | None]] = [("part", "0:topics"), ("part", "0:groups")]
    assert (await http.get("/console/events", params=two)).status_code == 503
    monkeypatch.setattr(hub, "USERS_MAX", 0)
    backend = MemoryBackend()
    access = RestAccess(authorizer=Recorder(lambda asked: True))
    app = create_app(backend, SystemClock(), random.Random(1), HostRules(["here"]), access)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        answer = await client.get("/console/events", params={"part": "0:topics"})
    assert (answer.status_code, answer.json()["error_code"]) == (503, 503)

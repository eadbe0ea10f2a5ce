"""HTTP Basic before the whole app."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import AsyncIterator

import httpx
import pytest

from support.authorizers import Asked, Recorder
from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace_gateway.rest.access.rest_access import Login, RestAccess
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.hosts import HostRules

DELAY_MS = 100.0
PAGES = ("/", "/docs", "/openapi.json", "/static/console.js", "/v3/clusters", "/no/such/page")


class OneUser:
    """alice, whose password is wonder:land."""

    async def are_right(self, user: str, password: str) -> bool:
        return (user, password) == ("alice", "wonder:land")


class TellingClock(ManualClock):
    """Says that somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_for = asyncio.Event()

    async def sleep(self, delay_ms: float) -> None:
        self.waited_for.set()
        await super().sleep(delay_ms)


@pytest.fixture
def clock() -> TellingClock:
    return TellingClock()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder(lambda asked: True)


@pytest.fixture
def failures() -> list[str]:
    return []


@pytest.fixture
async def client(
    backend: MemoryBackend, clock: TellingClock, recorder: Recorder, failures: list[str]
) -> AsyncIterator[httpx.AsyncClient]:
    access = RestAccess(
        login=Login(OneUser(), DELAY_MS, lambda client, user: failures.append(user)), authorizer=recorder
    )
    app = create_app(backend, clock, random.Random(1), HostRules(["here"]), access)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as made:
        yield made


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_asks_for_a_login(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="Tailrace", charset="UTF-8"'
    assert answer.json()["error_code"] == 401


@pytest.mark.parametrize(
    "header", ["", "Basic", "Basic !", "Bearer eA==", basic("alice"), "Basic /w==", basic("alice:wonder:land") + "!"]
)
async def test_what_is_no_login_is_asked_again(client: httpx.AsyncClient, header: str) -> None:
    assert (await client.get("/v3/clusters", headers={"authorization": header})).status_code == 401


async def test_two_logins_are_none(client: httpx.AsyncClient) -> None:
    twice = [("authorization", basic("alice:wonder:land"))] * 2
    assert (await client.get("/v3/clusters", headers=twice)).status_code == 401


async def test_the_user_is_the_principal_of_what_is_asked(client: httpx.AsyncClient, recorder: Recorder) -> None:
    answer = await client.get("/v3/clusters", headers={"authorization": basic("alice:wonder:land")})
    assert answer.status_code == 200
    assert Asked("DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster") in recorder.asked


async def test_a_wrong_password_is_told_and_answered_after_the_delay(
    client: httpx.AsyncClient, clock: TellingClock, failures: list[str]
) -> None:
    asking = asyncio.create_task(client.get("/v3/clusters", headers={"authorization": basic("alice:white rabbit")}))
    await clock.waited_for.wait()
    clock.advance(DELAY_MS - 1)
    await asyncio.sleep(0)
    assert not asking.done() and failures == ["alice"]
    clock.advance(1)
    answer = await asking
    assert answer.status_code == 401 and "rabbit" not in answer.text

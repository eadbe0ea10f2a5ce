"""Users over HTTP: created, listed, with another password, and deleted by the controller's decisions."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx
import pytest

from support.authorizers import Asked, Recorder
from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace.net.sasl.credentials import UserCredentials
from tailrace_gateway.rest.access.passwords import Passwords
from tailrace_gateway.rest.access.rest_access import RestAccess
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.hosts import HostRules

PLACE = "/v3/clusters/memory/users"
ALICE = {"user_name": "alice/ops", "password": "wonder:land"}


async def can_log_in(backend: MemoryBackend, password: str) -> bool:
    users = UserCredentials(backend.image, lambda: bytes(32))
    return await Passwords(users, bytes(32)).are_right("alice/ops", password)


async def test_a_user_is_created_and_logs_in_and_its_password_is_in_no_answer(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    made = await http.post(PLACE, json=ALICE)
    assert made.status_code == 201
    place = made.headers["location"]
    assert place == f"http://here{PLACE}/alice%2Fops" == made.json()["metadata"]["self"]
    assert made.json()["credentials"] == [
        {"mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    assert (await http.get(place)).json() == made.json()
    assert (await http.get(PLACE)).json()["data"] == [made.json()]
    assert "wonder" not in made.text + (await http.get(PLACE)).text
    assert await can_log_in(backend, "wonder:land")


async def test_a_user_that_exists_keeps_its_password(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    await http.post(PLACE, json=ALICE)
    refused = await http.post(PLACE, json={**ALICE, "password": "looking glass"})
    assert refused.status_code == 409
    assert await can_log_in(backend, "wonder:land")


async def test_a_password_changes_in_each_credential_and_a_user_is_deleted_with_all(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    for mechanisms in (["SCRAM-SHA-512"], ["SCRAM-SHA-256", "SCRAM-SHA-512"]):
        made = await http.post(PLACE, json={**ALICE, "mechanisms": mechanisms, "iterations": 5000})
        place = made.headers["location"]
        changed = await http.put(f"{place}/password", json={"password": "looking glass", "iterations": 6000})
        assert changed.status_code == 204
        rows = (await http.get(place)).json()["credentials"]
        assert rows == [{"mechanism": name, "iterations": 6000} for name in mechanisms]
        assert await can_log_in(backend, "looking glass") and not await can_log_in(backend, "wonder:land")
        assert (await http.delete(place)).status_code == 204
        assert not await can_log_in(backend, "looking glass")
        assert (await http.get(PLACE)).json()["data"] == []


async def test_a_user_that_does_not_exist_is_not_found(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    place = f"{PLACE}/bob"
    assert (await http.get(place)).status_code == 404
    assert (await http.delete(place)).status_code == 404
    assert (await http.put(f"{place}/password", json={"password": "x"})).status_code == 404
    assert backend.asked == []


@pytest.mark.parametrize(
    "change",
    [
        {"password": ""},
        {"password": "secret-\0"},
        {"password": "secret" * 50},
        {"password": None},
        {"password": "secret-\ud800"},
        {"iterations": 4095},
        {"iterations": 16385},
        {"mechanisms": []},
        {"mechanisms": ["PLAIN"]},
        {"user_name": ""},
    ],
)
async def test_what_is_no_user_is_a_bad_request_and_the_answer_has_no_password(
    http: httpx.AsyncClient, backend: MemoryBackend, change: dict[str, Any]
) -> None:
    body = json.dumps({**ALICE, **change})  # half a surrogate pair, too
    answer = await http.post(PLACE, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert "secret" not in answer.text and "wonder" not in answer.text
    assert backend.image().scram == {}


@pytest.mark.parametrize(
    ("method", "place", "body", "operations"),
    [
        ("GET", PLACE, None, {"DESCRIBE"}),
        ("GET", f"{PLACE}/bob", None, {"DESCRIBE"}),
        ("POST", PLACE, ALICE, {"DESCRIBE", "ALTER"}),
        ("PUT", f"{PLACE}/bob/password", {"password": "other"}, {"DESCRIBE", "ALTER"}),
        ("DELETE", f"{PLACE}/bob", None, {"DESCRIBE", "ALTER"}),
    ],
)
async def test_each_operation_needs_the_rights_that_kafka_asks_for(
    http: httpx.AsyncClient, backend: MemoryBackend, method: str, place: str, body: object, operations: set[str]
) -> None:
    await http.post(PLACE, json={"user_name": "bob", "password": "builder"})
    before = backend.image().scram
    for left_out in operations:
        granted = {Asked(one, "CLUSTER", "kafka-cluster") for one in operations - {left_out}}
        access = RestAccess(authorizer=Recorder(granted.__contains__))
        app = create_app(backend, ManualClock(), random.Random(1), HostRules(["here"]), access)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as user:
            assert (await user.request(method, place, json=body)).status_code == 403
        assert backend.image().scram == before

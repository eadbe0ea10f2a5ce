"""Configs of many topics at once, and those that a new topic would have."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import httpx
import pytest

from support.authorizers import Asked, Recorder
from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace.errors import ApiError, ErrorCode
from tailrace_gateway.rest.access.rest_access import RestAccess
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.hosts import HostRules

ROOT = "/v3/clusters/memory"
TOPICS = [f"topic-{n:03}" for n in range(250)]


async def all_configs(http: httpx.AsyncClient) -> list[dict[str, object]]:
    answer = await http.get(f"{ROOT}/topics/-/configs")
    assert answer.status_code == 200
    body = answer.json()
    assert (body["kind"], body["metadata"]["self"]) == ("KafkaTopicConfigList", f"http://here{ROOT}/topics/-/configs")
    rows: list[dict[str, object]] = body["data"]
    return rows


async def test_configs_of_all_topics_are_those_of_each_in_order(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    assert await all_configs(http) == []
    for name in TOPICS:
        backend.set_topic(name, 1)
    backend.configs[2, TOPICS[7]] = {"retention.ms": "1"}
    rows = await all_configs(http)
    assert list(dict.fromkeys(row["topic_name"] for row in rows)) == TOPICS
    one = (await http.get(f"{ROOT}/topics/{TOPICS[7]}/configs")).json()["data"]
    assert [row for row in rows if row["topic_name"] == TOPICS[7]] == one
    assert {row["value"] for row in one} >= {"1"}


async def test_a_topic_that_is_deleted_meanwhile_is_left_out(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    for name in TOPICS[:2]:
        backend.set_topic(name, 1)
    backend.gone.add(TOPICS[0])
    assert {row["topic_name"] for row in await all_configs(http)} == {TOPICS[1]}


async def test_a_list_that_cannot_begin_has_the_status_of_its_error(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    backend.set_topic("orders", 1)
    backend.fail_next = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert (await http.get(f"{ROOT}/topics/-/configs")).status_code == 403


async def test_topics_that_cannot_change_are_named_and_the_others_change(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    for name in TOPICS[:2]:
        backend.set_topic(name, 1)
    good = [{"name": "retention.ms", "value": "5"}]
    place = f"{ROOT}/topics/-/configs:alter"
    rows = [{"topic_name": name, "configs": good} for name in TOPICS[:2]]
    assert (await http.post(place, json={"data": rows, "validate_only": True})).status_code == 204
    assert not any(backend.configs.values())
    rows = [
        {"topic_name": "absent", "configs": good},
        {"topic_name": TOPICS[0], "configs": [{"name": "no.such", "value": "5"}]},
        {"topic_name": TOPICS[1], "configs": good},
    ]
    answer = await http.post(place, json={"data": rows})
    assert answer.status_code == 207
    failures = {row["topic_name"]: (row["error_code"], row["message"]) for row in answer.json()["failures"]}
    assert failures == {
        "absent": (40403, "This server does not host this topic-partition."),
        TOPICS[0]: (40002, "Unknown config no.such"),
    }
    assert backend.configs[2, TOPICS[1]] == {"retention.ms": "5"}
    assert (await http.post(place, json={"data": [rows[2], rows[2]]})).status_code == 400


@pytest.mark.parametrize(("name", "status"), [("new", 200), ("orders", 400)])
async def test_the_configs_that_a_new_topic_would_have_are_told_and_none_is_made(
    http: httpx.AsyncClient, backend: MemoryBackend, name: str, status: int
) -> None:
    backend.set_topic("orders", 1)
    answer = await http.get(f"{ROOT}/topics/{name}/default-configs")
    assert answer.status_code == status, answer.text
    if status == 200:
        values = {row["name"]: (row["value"], row["is_default"]) for row in answer.json()["data"]}
        assert values["retention.ms"] == ("604800000", True)
    assert list(backend.image().topics) == ["orders"]


@pytest.fixture
async def alice(backend: MemoryBackend) -> AsyncIterator[httpx.AsyncClient]:
    """A user that may see every topic, but describe and alter the configs of those with an even number only."""

    def may(asked: Asked) -> bool:
        if asked.operation in {"DESCRIBE_CONFIGS", "ALTER_CONFIGS"}:
            return asked.name[-1] in "02468"
        return asked.operation in {"DESCRIBE", "CREATE"}

    access = RestAccess(authorizer=Recorder(may))
    app = create_app(backend, ManualClock(), random.Random(1), HostRules(["here"]), access)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        yield client


async def test_configs_that_the_user_may_not_describe_are_left_out(
    alice: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    assert await all_configs(alice) == []
    for name in TOPICS:
        backend.set_topic(name, 1)
    rows = await all_configs(alice)
    assert list(dict.fromkeys(row["topic_name"] for row in rows)) == TOPICS[::2]
    for name, status in ((TOPICS[0], 200), (TOPICS[1], 403)):
        assert (await alice.get(f"{ROOT}/topics/{name}/configs")).status_code == status


async def test_topics_whose_configs_the_user_may_not_alter_are_named_and_the_others_change(
    alice: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    for name in TOPICS[:4]:
        backend.set_topic(name, 1)
    wanted = [{"topic_name": name, "configs": [{"name": "retention.ms", "value": "5"}]} for name in TOPICS[:4]]
    answer = await alice.post(f"{ROOT}/topics/-/configs:alter", json={"data": wanted})
    assert answer.status_code == 207
    failures = [(row["topic_name"], row["error_code"]) for row in answer.json()["failures"]]
    assert failures == [(TOPICS[1], 40301), (TOPICS[3], 40301)]
    assert {name for (_, name), rows in backend.configs.items() if rows} == {TOPICS[0], TOPICS[2]}
    odd = [row for row in wanted if row["topic_name"] == TOPICS[1]]
    answer = await alice.post(f"{ROOT}/topics/-/configs:alter", json={"data": odd})
    assert [row["topic_name"] for row in answer.json()["failures"]] == [TOPICS[1]]


@pytest.mark.parametrize(("name", "status"), [("new-0", 200), ("new-1", 403)])
async def test_default_configs_need_the_right_to_describe_them(
    alice: httpx.AsyncClient, name: str, status: int
) -> None:
    assert (await alice.get(f"{ROOT}/topics/{name}/default-configs")).status_code == status

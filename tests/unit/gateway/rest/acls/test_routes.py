"""ACLs over HTTP, as Confluent's v3 has them: created, found and deleted by the controller's decisions."""

from __future__ import annotations

import random
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from support.authorizers import Asked, Recorder
from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace.errors import ApiError, ErrorCode
from tailrace_gateway.rest.access.rest_access import RestAccess
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.hosts import HostRules

PLACE = "/v3/clusters/memory/acls"
ALICE = {
    "resource_type": "TOPIC",
    "resource_name": "orders & more",
    "pattern_type": "PREFIXED",
    "principal": "User:CN=alice,O=x",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
BOB = {**ALICE, "principal": "User:bob", "pattern_type": "LITERAL", "operation": "WRITE"}
WILDCARD = {**BOB, "resource_name": "*", "permission": "DENY"}


def fields(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [{name: row[name] for name in ALICE} for row in rows]


async def listed(http: httpx.AsyncClient, **query: str) -> list[dict[str, str]]:
    answer = await http.get(PLACE, params=query)
    assert answer.status_code == 200, answer.text
    return fields(answer.json()["data"])


async def test_an_acl_is_created_once_found_by_its_address_and_deleted_by_it(http: httpx.AsyncClient) -> None:
    for _ in range(2):
        made = await http.post(PLACE, json=ALICE)
        assert (made.status_code, made.content) == (201, b"")
    place = made.headers["location"]
    assert {name: values[0] for name, values in parse_qs(urlsplit(place).query).items()} == ALICE
    (row,) = (await http.get(PLACE)).json()["data"]
    assert row == {**ALICE, "kind": "KafkaAcl", "cluster_id": "memory", "metadata": row["metadata"]}
    assert row["metadata"]["self"] == place
    found = (await http.get(place)).json()
    assert found["data"] == [row] and found["kind"] == "KafkaAclList"
    assert found["metadata"]["self"] == place
    gone = await http.delete(place)
    assert (gone.status_code, gone.json()["data"]) == (200, [row])
    assert await listed(http) == []


async def test_several_are_created_at_once_and_words_may_be_small(http: httpx.AsyncClient) -> None:
    small = {
        name: value.lower() if value in ("TOPIC", "LITERAL", "WRITE", "ALLOW") else value for name, value in BOB.items()
    }
    assert (await http.post(f"{PLACE}:batch", json={"data": [ALICE, small]})).status_code == 201
    assert await listed(http) == [BOB, ALICE]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, [WILDCARD, BOB, ALICE]),
        ({"resource_type": "ANY"}, [WILDCARD, BOB, ALICE]),
        ({"resource_type": "group"}, []),
        ({"principal": "User:bob"}, [WILDCARD, BOB]),
        ({"operation": "read"}, [ALICE]),
        ({"permission": "deny"}, [WILDCARD]),
        ({"pattern_type": "PREFIXED"}, [ALICE]),
        ({"resource_name": "orders & more", "resource_type": "TOPIC"}, [BOB, ALICE]),
        ({"resource_name": "orders & more than that", "pattern_type": "MATCH"}, [WILDCARD, ALICE]),
    ],
)
async def test_a_query_is_a_filter_as_in_kafka(
    http: httpx.AsyncClient, query: dict[str, str], found: list[dict[str, str]]
) -> None:
    assert (await http.post(f"{PLACE}:batch", json={"data": [ALICE, BOB, WILDCARD]})).status_code == 201
    assert await listed(http, **query) == found


async def test_a_deletion_of_everything_has_to_say_so(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    await http.post(f"{PLACE}:batch", json={"data": [ALICE, BOB]})
    asked = len(backend.asked)
    refused = await http.delete(PLACE)
    assert refused.status_code == 400 and "resource_type=ANY" in refused.json()["message"]
    typo = await http.delete(PLACE, params={"principle": "User:bob"})
    assert typo.status_code == 400 and "principle" in typo.json()["message"]
    assert len(backend.asked) == asked
    gone = await http.delete(PLACE, params={"resource_type": "ANY"})
    assert fields(gone.json()["data"]) == [BOB, ALICE]


@pytest.mark.parametrize("name", sorted(ALICE))
async def test_an_empty_value_is_a_mistake_and_not_every_acl(
    http: httpx.AsyncClient, backend: MemoryBackend, name: str
) -> None:
    """As of a shell variable that is not set."""
    await http.post(f"{PLACE}:batch", json={"data": [ALICE, BOB]})
    asked = len(backend.asked)
    for method in ("GET", "DELETE"):
        answer = await http.request(method, PLACE, params={"resource_type": "ANY", name: ""})
        assert answer.status_code == 400 and name in answer.json()["message"], answer.text
    assert len(backend.asked) == asked


async def test_a_list_is_at_the_address_that_was_asked(http: httpx.AsyncClient) -> None:
    for query in ("", "?principal=User%3Abob"):
        metadata = (await http.get(PLACE + query)).json()["metadata"]
        assert metadata["self"] == f"http://here{PLACE}{query}"
        assert (await http.get(metadata["self"])).status_code == 200


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"operation": "ANY"}, "operation"),
        ({"operation": "UNKNOWN"}, "operation"),
        ({"pattern_type": "MATCH"}, "pattern_type"),
        ({"resource_type": 3}, "resource_type"),
        ({"permission": "perhaps"}, "permission"),
        ({"principal": "alice"}, "Could not parse principal"),
        ({"host": "10.0.0.0/99"}, "10.0.0.0/99"),
        ({"resource_type": "CLUSTER"}, "kafka-cluster"),
        ({"ttl": "1"}, "ttl"),
    ],
)
async def test_what_is_no_acl_is_a_bad_request(http: httpx.AsyncClient, change: dict[str, object], why: str) -> None:
    for body, place in (({**ALICE, **change}, PLACE), ({"data": [{**ALICE, **change}]}, f"{PLACE}:batch")):
        answer = await http.post(place, json=body)
        assert answer.status_code == 400 and why in answer.json()["message"], answer.text
    assert await listed(http) == []


async def test_one_that_is_refused_is_told_and_does_not_stop_the_others(http: httpx.AsyncClient) -> None:
    answer = await http.post(f"{PLACE}:batch", json={"data": [{**ALICE, "principal": "alice"}, BOB]})
    assert answer.status_code == 400
    assert await listed(http) == [BOB]


async def test_without_an_authorizer_kafkas_refusal_is_a_bad_request(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    backend.fail_next = ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    answer = await http.get(PLACE)
    assert (answer.status_code, answer.json()["message"]) == (400, "No Authorizer is configured.")


@pytest.mark.parametrize(
    ("method", "place", "body", "operation"),
    [
        ("GET", PLACE, None, "DESCRIBE"),
        ("POST", PLACE, ALICE, "ALTER"),
        ("POST", f"{PLACE}:batch", {"data": [ALICE]}, "ALTER"),
        ("DELETE", f"{PLACE}?resource_type=ANY", None, "ALTER"),
    ],
)
async def test_each_operation_needs_the_right_that_kafka_asks_for(
    backend: MemoryBackend, method: str, place: str, body: object, operation: str
) -> None:
    right = Asked(operation, "CLUSTER", "kafka-cluster")
    for granted, status in ((False, {403}), (True, {200, 201})):
        backend.asked.clear()
        access = RestAccess(authorizer=Recorder({right}.__contains__ if granted else None))
        app = create_app(backend, ManualClock(), random.Random(1), HostRules(["here"]), access)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as user:
            assert (await user.request(method, place, json=body)).status_code in status
        assert bool(backend.asked) is granted


@pytest.mark.parametrize("authorizer", [None, Recorder(lambda asked: True)])
async def test_a_cluster_links_to_its_acls_where_it_has_an_authorizer(
    backend: MemoryBackend, authorizer: Recorder | None
) -> None:
    app = create_app(backend, ManualClock(), random.Random(1), HostRules(["here"]), RestAccess(authorizer=authorizer))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as user:
        link = (await user.get("/v3/clusters/memory")).json()["acls"]
        assert link == (None if authorizer is None else {"related": f"http://here{PLACE}"})

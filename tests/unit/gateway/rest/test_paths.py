"""Paths and methods as routes see them: the prefix of Confluent Cloud, HEAD, and fields that are null."""

from __future__ import annotations

import httpx
import pytest

from support.rest_backend import MemoryBackend

ROOT = "/v3/clusters/memory"


@pytest.fixture(autouse=True)
def orders(backend: MemoryBackend) -> None:
    backend.set_topic("orders", 2)


async def test_the_prefix_of_confluent_cloud_is_an_alias_and_its_links_have_it(http: httpx.AsyncClient) -> None:
    plain, alias = await http.get(f"{ROOT}/topics/orders"), await http.get(f"/kafka{ROOT}/topics/orders")
    assert alias.status_code == 200
    assert alias.text.replace("/kafka/v3/", "/v3/") == plain.text
    link = alias.json()["partitions"]["related"]
    assert link == f"http://here/kafka{ROOT}/topics/orders/partitions"
    assert (await http.get(link)).json()["data"][1]["partition_id"] == 1
    assert (await http.get("/kafka/v3/clusters")).status_code == 200


async def test_what_changes_something_works_below_the_alias_too(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    assert (await http.post(f"/kafka{ROOT}/topics", json={"topic_name": "made"})).status_code == 201
    assert backend.image().topic("made")
    assert (await http.delete(f"/kafka{ROOT}/topics/made")).status_code == 204
    refused = await http.put(f"/kafka{ROOT}/topics")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST")


@pytest.mark.parametrize("path", ["/kafka", "/kafka/", "/kafka/docs", "/kafka/kafka/v3/clusters", "/kafkav3/clusters"])
async def test_the_alias_is_of_v3_alone(http: httpx.AsyncClient, path: str) -> None:
    assert (await http.get(path)).status_code == 404


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/v3/clusters", f"{ROOT}/topics/orders"])
async def test_head_is_get_without_the_body(http: httpx.AsyncClient, path: str) -> None:
    plain = {"accept-encoding": "identity"}
    whole, head = await http.get(path, headers=plain), await http.head(path, headers=plain)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers == whole.headers
    assert int(head.headers["content-length"]) == len(whole.content)


async def test_head_of_what_is_not_there_is_refused_as_get(http: httpx.AsyncClient) -> None:
    assert (await http.head(f"{ROOT}/topics/nope")).status_code == 404
    assert (await http.head(f"{ROOT}/consumer-groups/g/offsets:reset")).status_code == 405


async def test_null_is_the_default_of_a_field_that_may_be_left_out(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    body = {"topic_name": "made", "partitions_count": None, "replication_factor": None, "configs": None}
    body |= {"replicas_assignments": None, "validate_only": None}
    assert (await http.post(f"{ROOT}/topics", json=body)).status_code == 201
    (topic,) = backend.asked[-1][1].topics
    assert (topic.num_partitions, topic.replication_factor, topic.configs) == (-1, -1, [])


async def test_null_is_no_value_of_a_field_that_must_be_there(http: httpx.AsyncClient) -> None:
    refused = await http.post(f"{ROOT}/topics", json={"topic_name": None})
    assert (refused.status_code, "topic_name" in refused.json()["message"]) == (400, True)
    refused = await http.patch(f"{ROOT}/topics/orders", json={"partitions_count": None})
    assert refused.status_code == 400

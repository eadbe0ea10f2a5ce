"""What is refused instead of ignored: fields that do not exist, bodies in another encoding, dangerous deletions."""

import json

import httpx
import pytest

from support.rest_backend import MemoryBackend
from tailrace.errors import ApiError, ErrorCode

ROOT = "/v3/clusters/memory"
TYPE = {"content-type": "application/json"}


@pytest.fixture(autouse=True)
def orders(backend: MemoryBackend) -> None:
    backend.set_topic("orders", 2)


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "topics", {"topic_name": "t", "partition_count": 12}, "partition_count"),
        ("POST", "topics", {"topic_name": "t", "configs": [{"name": "a", "value": "b", "x": 1}]}, "configs.0.x"),
        ("POST", "topics", {"topic_name": "t", "replicas_assignments": [{"partition": 0}]}, "replicas_assignments.0"),
        ("PATCH", "topics/orders", {"partitions_count": 3, "replication_factor": 2}, "replication_factor"),
        ("PUT", "topics/orders/configs/retention.ms", {"value": "1", "validate_only": True}, "validate_only"),
        ("POST", "topics/orders/configs:alter", {"data": [], "validateOnly": True}, "validateOnly"),
        ("POST", "topics/orders/configs:alter", {"data": [{"name": "a", "op": "SET"}]}, "data.0.op"),
        ("POST", "topics/orders/records", {"value": {"data": 1, "schema_id": 7}}, "value.schema_id"),
        ("POST", "topics/orders/records", {"headers": [{"key": "a"}]}, "headers.0"),
        ("PUT", "topics/orders/partitions/0/reassignment", {"replicas": [0], "rate": 1}, "rate"),
        ("PUT", "topics/orders/partitions/0/replicas/0/log-dir-move", {"log_dir": "/memory", "x": 1}, "x"),
    ],
)
async def test_a_field_that_does_not_exist_is_refused_by_its_name(
    http: httpx.AsyncClient, backend: MemoryBackend, method: str, path: str, body: object, field: str
) -> None:
    answer = await http.request(method, f"{ROOT}/{path}", content=json.dumps(body), headers=TYPE)
    assert (answer.status_code, answer.json()["error_code"]) == (400, 400)
    assert field in answer.json()["message"]
    assert backend.asked == []


async def test_every_body_that_is_taken_is_in_the_openapi_document_as_one_without_other_fields(
    http: httpx.AsyncClient,
) -> None:
    document = (await http.get("/openapi.json")).json()
    bodies = {
        operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for methods in document["paths"].values()
        for operation in methods.values()
        if "requestBody" in operation
    }
    assert len(bodies) == 20
    schemas = document["components"]["schemas"]
    assert all(schemas[name]["additionalProperties"] is False for name in bodies)


async def test_replicas_are_assigned_as_asked(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    rows = [{"partition_id": 0, "broker_ids": [1, 0]}, {"partition_id": 1, "broker_ids": [0, 1]}]
    made = await http.post(f"{ROOT}/topics", json={"topic_name": "placed", "replicas_assignments": rows})
    assert made.status_code == 201
    (_, request) = backend.asked[-1]
    (topic,) = request.topics
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    assert [(row.partition_index, row.broker_ids) for row in topic.assignments] == [(0, [1, 0]), (1, [0, 1])]


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
async def test_an_internal_topic_is_deleted_only_by_a_word_of_its_own(
    http: httpx.AsyncClient, backend: MemoryBackend, name: str
) -> None:
    backend.set_topic(name, 1)
    refused = await http.delete(f"{ROOT}/topics/{name}")
    assert (refused.status_code, refused.json()["error_code"]) == (403, 403)
    assert "internal=true" in refused.json()["message"]
    assert backend.image().topic(name)
    assert (await http.delete(f"{ROOT}/topics/{name}?internal=true")).status_code == 204
    assert backend.image().topic(name) is None


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", f"{ROOT}/topics", "GET, HEAD, POST"),
        ("POST", f"{ROOT}/topics/orders", "DELETE, GET, HEAD, PATCH"),
        ("POST", f"{ROOT}/topics/orders/partitions/0/reassignment", "DELETE, GET, HEAD, PUT"),
        ("DELETE", "/", "GET, HEAD"),
        ("DELETE", "/v3/clusters", "GET, HEAD"),
    ],
)
async def test_a_method_that_is_not_allowed_is_answered_with_those_that_are(
    http: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    answer = await http.request(method, path)
    assert (answer.status_code, answer.json()["error_code"]) == (405, 405)
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip"])
async def test_a_body_in_another_encoding_is_refused(
    http: httpx.AsyncClient, backend: MemoryBackend, encoding: str
) -> None:
    headers = {**TYPE, "content-encoding": encoding}
    answer = await http.post(f"{ROOT}/topics", content=b"\x1f\x8b", headers=headers)
    assert (answer.status_code, answer.json()["error_code"]) == (415, 415)
    assert answer.headers["accept-encoding"] == "identity"
    plain = await http.post(f"{ROOT}/topics", json={"topic_name": "t"}, headers={"content-encoding": "identity"})
    assert plain.status_code == 201


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, 404),
        (ErrorCode.RESOURCE_NOT_FOUND, 404),
        (ErrorCode.REASSIGNMENT_IN_PROGRESS, 400),
        (ErrorCode.SECURITY_DISABLED, 400),
        (ErrorCode.ELECTION_NOT_NEEDED, 400),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 429),
    ],
)
async def test_what_a_client_asks_for_in_vain_is_no_error_of_the_server(
    http: httpx.AsyncClient, backend: MemoryBackend, code: ErrorCode, status: int
) -> None:
    backend.fail_next = ApiError(code)
    assert (await http.post(f"{ROOT}/topics", json={"topic_name": "t"})).status_code == status

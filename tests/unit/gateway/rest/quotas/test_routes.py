"""Quotas over HTTP: every kind of entity has a path, changes are the controller's, use is the quota service's."""

import random
from urllib.parse import quote

import httpx
import pytest

from support.authorizers import Asked, Recorder
from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace.errors import ApiError, ErrorCode
from tailrace.wire.messages import DescribeQuotaUsageResponse
from tailrace_gateway.rest.access.rest_access import RestAccess
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.hosts import HostRules

ROOT = "/v3/clusters/memory"
ENTITIES = {
    "client-id=a%2Cb": (("client-id", "a,b"),),
    "client-id=": (("client-id", None),),
    "client-id=app,user=alice%2Fops": (("client-id", "app"), ("user", "alice/ops")),
    "client-id=,user=": (("client-id", None), ("user", None)),
    "user=%3Cdefault%3E": (("user", "<default>"),),  # somebody of that name
    "ip=10.0.0.1": (("ip", "10.0.0.1"),),
}


@pytest.mark.parametrize(("entity_id", "entity"), ENTITIES.items())
async def test_a_quota_is_set_shown_and_removed_by_its_entitys_path(
    entity_id: str, entity: tuple[tuple[str, str | None], ...], http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    place = f"{ROOT}/quotas/{quote(entity_id, safe='')}"
    assert (await http.get(place)).status_code == 404
    assert (await http.put(f"{place}/producer_byte_rate", json={"value": 1000})).status_code == 204
    assert backend.image().quotas == {entity: {"producer_byte_rate": 1000.0}}
    (row,) = (await http.get(f"{ROOT}/quotas")).json()["data"]
    assert row == (await http.get(place)).json() == (await http.get(row["metadata"]["self"])).json()
    assert row["values"] == {"producer_byte_rate": 1000.0}
    assert [(part["entity_type"], part["entity_name"]) for part in row["entity"]] == list(entity)
    assert (await http.delete(f"{place}/producer_byte_rate")).status_code == 204
    assert (await http.get(f"{ROOT}/quotas")).json()["data"] == []


@pytest.mark.parametrize("entity_id", ["nobody", "=x", "client-id=app,", ",", "client-id"])
async def test_what_names_no_entity_is_not_found(
    entity_id: str, http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    place = f"{ROOT}/quotas/{quote(entity_id, safe='')}"
    assert (await http.get(place)).status_code == 404
    assert (await http.put(f"{place}/producer_byte_rate", json={"value": 1})).status_code == 404
    assert backend.asked == []


@pytest.mark.parametrize("entity_id", ["user=alice,user=bob", "user=,user=alice", "client-id=a,user=b,client-id=a"])
async def test_an_entity_that_names_a_type_twice_is_refused_and_nobodys_quota_is_changed(
    entity_id: str, http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    place = f"{ROOT}/quotas/{quote(entity_id, safe='')}"
    parts = [part.split("=") for part in entity_id.split(",")]
    entity = [{"entity_type": kind, "entity_name": name or None} for kind, name in parts]
    change = {"entity": entity, "name": "producer_byte_rate", "value": 1}
    for answer in (
        await http.get(place),
        await http.put(f"{place}/producer_byte_rate", json={"value": 1}),
        await http.delete(f"{place}/producer_byte_rate"),
        await http.post(f"{ROOT}/quotas:alter", json={"data": [change]}),
    ):
        assert answer.status_code == 400
        assert f"names its {parts[0][0]} once" in answer.json()["message"]
    assert backend.asked == []


async def test_a_quota_that_there_is_not_is_not_found_when_it_shall_be_removed(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    held = {(("user", "alice"),): {"producer_byte_rate": 5.0}}
    backend.set_quotas(held)
    for place in ("user=alice/producer_byte_rat", "user=/producer_byte_rate", "user=bob/producer_byte_rate"):
        assert (await http.delete(f"{ROOT}/quotas/{place}")).status_code == 404
    assert (backend.asked, backend.image().quotas) == ([], held)


async def test_several_are_changed_at_once_or_only_looked_at(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.set_quotas({(("user", "old"),): {"consumer_byte_rate": 5.0}})
    changes = {
        "data": [
            {"entity": [{"entity_type": "user", "entity_name": "old"}], "name": "consumer_byte_rate"},
            {"entity": [{"entity_type": "ip"}], "name": "connection_creation_rate", "value": 3},
        ]
    }
    assert (await http.post(f"{ROOT}/quotas:alter", json={**changes, "validate_only": True})).status_code == 204
    assert backend.image().quotas == {(("user", "old"),): {"consumer_byte_rate": 5.0}}
    assert (await http.post(f"{ROOT}/quotas:alter", json=changes)).status_code == 204
    assert backend.image().quotas == {(("ip", None),): {"connection_creation_rate": 3.0}}


async def test_what_the_controller_refuses_is_a_bad_request_in_its_words(http: httpx.AsyncClient) -> None:
    answer = await http.put(f"{ROOT}/quotas/client-id=app/producer_byte_rate", json={"value": -1})
    assert answer.status_code == 400
    assert "must be greater than 0" in answer.json()["message"]


async def test_use_is_listed_as_the_quota_service_tells_it(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    row = DescribeQuotaUsageResponse.QuotaUsage
    backend.quota_usage = [
        row(
            client_id="app",
            user=None,
            ip=None,
            broker="3",
            key="producer_byte_rate",
            limit=100.0,
            rate=99.5,
            total=1e6,
            throttle_time_ms=1234.4,
            throttled=True,
        )
    ]
    (used,) = (await http.get(f"{ROOT}/quota-usage")).json()["data"]
    assert used == {
        "kind": "TailraceQuotaUsage",
        "cluster_id": "memory",
        "user": None,
        "client_id": "app",
        "ip": None,
        "broker_id": 3,
        "name": "producer_byte_rate",
        "limit": 100.0,
        "usage": 99.5,
        "total": 1e6,
        "throttle_time_ms": 1234,
        "throttled": True,
    }
    backend.fail_next = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "No quota service answers.")
    assert (await http.get(f"{ROOT}/quota-usage")).status_code == 503


@pytest.mark.parametrize(("right", "status"), [("DESCRIBE_CONFIGS", 200), ("DESCRIBE", 403)])
async def test_quotas_are_told_to_those_that_may_describe_the_clusters_configs(
    backend: MemoryBackend, right: str, status: int
) -> None:
    backend.set_quotas({(("user", "alice"),): {"consumer_byte_rate": 5.0}})
    access = RestAccess(authorizer=Recorder({Asked(right, "CLUSTER", "kafka-cluster")}.__contains__))
    app = create_app(backend, ManualClock(), random.Random(1), HostRules(["here"]), access)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as user:
        for place in ("quotas", "quotas/user=alice"):
            assert (await user.get(f"{ROOT}/{place}")).status_code == status

"""Replication over HTTP: who leads, who is in sync, what moves, which broker is away, and the status of it all."""

from typing import Any
from uuid import UUID

import httpx
import pytest

from support.rest_backend import MemoryBackend
from tailrace.cli.daily.status import ANSWER_SECONDS
from tailrace.metadata.image import BrokerImage, PartitionImage
from tailrace_gateway.rest.replication import reassignments

ROOT = "/v3/clusters/memory"
ORDERS = f"{ROOT}/topics/orders/partitions"


def partition(*isr: int, leader: int | None = None, **changes: Any) -> PartitionImage:
    fields: dict[str, Any] = {"replicas": (0, 1, 2), "isr": isr, "leader": isr[0] if leader is None else leader}
    return PartitionImage(**{**fields, "leader_epoch": 4, "partition_epoch": 1, **changes})


@pytest.fixture
def backend() -> MemoryBackend:
    """Two live brokers, one fenced; partition 0 is whole, 1 is offline with an ELR, 2 is on its way from 1 to 3."""
    memory = MemoryBackend(brokers=2)
    memory.set_broker(BrokerImage(2, 5, UUID(int=9), fenced=True))
    memory.set_broker(BrokerImage(3, 6, UUID(int=8), fenced=False, in_controlled_shutdown=True))
    moving = partition(0, 1, replicas=(0, 1, 3), adding_replicas=(3,), removing_replicas=(1,))
    offline = partition(leader=-1, eligible_leader_replicas=(2,), last_known_elr=(1,))
    memory.set_partitions("orders", partition(0, 1, 2), offline, moving)
    memory.sizes = {(0, "orders", 2): 1000, (3, "orders", 2): 250}
    return memory


async def test_a_partition_tells_leader_isr_and_elr(http: httpx.AsyncClient) -> None:
    whole, offline, _ = (await http.get(ORDERS)).json()["data"]
    assert (whole["leader_id"], whole["leader_epoch"], whole["in_sync_replica_ids"]) == (0, 4, [0, 1, 2])
    assert whole["leader"]["related"].endswith("/orders/partitions/0/replicas/0")
    assert (offline["leader"], offline["leader_id"], offline["is_under_replicated"]) == (None, None, True)
    assert (offline["eligible_leader_replica_ids"], offline["last_known_elr_ids"]) == ([2], [1])


async def test_a_replica_tells_whether_it_leads_is_in_sync_and_online(http: httpx.AsyncClient) -> None:
    rows = (await http.get(f"{ORDERS}/1/replicas")).json()["data"]
    keys = ("broker_id", "is_leader", "is_in_sync", "is_eligible_leader", "is_online")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        (0, False, False, False, True),
        (1, False, False, False, True),
        (2, False, False, True, False),
    ]
    assert (await http.get(f"{ORDERS}/1/replicas/2")).json() == rows[2]
    assert (await http.get(f"{ORDERS}/1/replicas/3")).status_code == 404


async def test_brokers_have_a_state_and_their_replicas(http: httpx.AsyncClient) -> None:
    rows = (await http.get(f"{ROOT}/brokers")).json()["data"]
    assert [(row["broker_id"], row["state"]) for row in rows] == [
        (0, "live"),
        (1, "live"),
        (2, "fenced"),
        (3, "controlled-shutdown"),
    ]
    held = (await http.get(f"{ROOT}/brokers/2/partition-replicas")).json()["data"]
    assert [row["partition_id"] for row in held] == [0, 1]
    assert (await http.get(f"{ROOT}/brokers/2/configs")).status_code == 503
    assert (await http.get(f"{ROOT}/brokers/2/log-dirs")).status_code == 503
    dirs = (await http.get(f"{ROOT}/brokers/0/log-dirs")).json()["data"]
    assert [(row["log_dir"], row["state"], row["usable_bytes"]) for row in dirs] == [
        ("/memory", "online", None),
        ("/broken", "offline", None),
    ]
    assert [(row["partitions_count"], row["moving_here_count"]) for row in dirs] == [(0, 0), (0, 0)]


@pytest.mark.parametrize("path", ["topics/-/partitions/-/reassignment", "topics/orders/partitions/-/reassignment"])
async def test_reassignments_are_listed_with_their_progress(http: httpx.AsyncClient, path: str) -> None:
    (row,) = (await http.get(f"{ROOT}/{path}")).json()["data"]
    assert (row["kind"], row["partition_id"]) == ("KafkaReassignment", 2)
    assert (row["adding_replicas"], row["removing_replicas"]) == ([3], [1])
    assert (row["copied_bytes"], row["total_bytes"]) == (250, 1000)
    assert row == (await http.get(f"{ORDERS}/2/reassignment")).json()


async def test_progress_is_unknown_while_the_leader_does_not_answer(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    backend.sizes.clear()
    assert (await http.get(f"{ORDERS}/2/reassignment")).json()["copied_bytes"] is None


async def test_a_reassignment_is_started_cancelled_and_refused(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    assert (await http.get(f"{ORDERS}/0/reassignment")).status_code == 404
    assert (await http.put(f"{ORDERS}/0/reassignment", json={"replicas": [1, 3]})).status_code == 204
    assert backend.image().topics["orders"].partitions[0].replicas == (1, 3)
    assert (await http.delete(f"{ORDERS}/2/reassignment")).status_code == 204
    assert backend.image().topics["orders"].partitions[2].replicas == (0, 1)
    refused = await http.put(f"{ORDERS}/0/reassignment", json={"replicas": [77]})
    assert (refused.status_code, refused.json()["error_code"]) == (400, 40002)


async def test_a_broker_is_emptied_and_forgotten(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    assert (await http.get(f"{ROOT}/remove-broker-tasks/2")).status_code == 404
    refused = await http.post(f"{ROOT}/brokers/2:unregister")
    assert (refused.status_code, refused.json()["error_code"]) == (409, 409)
    assert "holds 2 partitions" in refused.json()["message"]
    removal = await http.delete(f"{ROOT}/brokers/2")
    assert removal.status_code == 202
    task = (await http.get(removal.json()["broker_task"]["related"])).json()
    assert (task["partition_reassignment_status"], task["partitions_left"]) == ("COMPLETED", 0)
    assert backend.image().topics["orders"].partitions[0].replicas == (0, 1, 3)
    assert (await http.post(f"{ROOT}/brokers/2:unregister")).status_code == 204
    assert (await http.get(f"{ROOT}/brokers/2")).status_code == 404
    assert (await http.post(f"{ROOT}/brokers/2:unregister")).status_code == 404


async def test_a_broker_that_runs_is_not_forgotten_unless_forced(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    refused = await http.post(f"{ROOT}/brokers/0:unregister")
    assert (refused.status_code, refused.json()["message"]) == (409, "Broker 0 runs: stop it first, or force=true.")
    assert 0 in backend.image().brokers
    assert (await http.post(f"{ROOT}/brokers/0:unregister?force=true")).status_code == 204
    assert 0 not in backend.image().brokers


async def test_a_reassignment_that_does_not_run_cannot_be_cancelled(http: httpx.AsyncClient) -> None:
    answer = await http.delete(f"{ORDERS}/0/reassignment")
    assert (answer.status_code, answer.json()["error_code"]) == (404, 404)


async def test_a_broker_that_nobody_can_stand_in_for_is_not_emptied_unless_it_may_shrink(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    backend.set_partitions("orders", partition(0, 1, replicas=(0, 1, 3)))
    refused = await http.delete(f"{ROOT}/brokers/1")
    assert refused.status_code == 400
    assert "orders-0" in refused.json()["message"]
    assert (await http.delete(f"{ROOT}/brokers/1", params={"shrink": "true"})).status_code == 202
    assert backend.image().topics["orders"].partitions[0].replicas == (0, 3)


async def test_brokers_that_are_being_emptied_are_listed(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    assert (await http.get(f"{ROOT}/remove-broker-tasks")).json()["data"] == []
    backend.set_partitions("orders", partition(0, 1, 2, removing_replicas=(2,), adding_replicas=()))
    rows = (await http.get(f"{ROOT}/remove-broker-tasks")).json()["data"]
    assert [(row["broker_id"], row["partitions_left"]) for row in rows] == [(2, 1)]
    assert (await http.get(rows[0]["metadata"]["self"])).json()["partition_reassignment_status"] == "IN_PROGRESS"


async def test_the_status_names_the_log_dirs_that_slow_or_refuse_producers(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    assert (await http.get(f"{ROOT}/status")).json()["log_dirs_under_pressure"] == []
    backend.space = {0: (1_000_000, 9_000), 1: (1_000_000, 30_000), 3: (1_000_000, 900_000)}
    rows = (await http.get(f"{ROOT}/status")).json()["log_dirs_under_pressure"]
    assert [(row["broker_id"], row["producers"], row["usable_bytes"]) for row in rows] == [
        (0, "refused", 9_000),
        (1, "slowed", 30_000),
    ]
    listed = [(await http.get(f"{ROOT}/brokers/{node}/log-dirs")).json()["data"] for node in (0, 1, 3)]
    said = [(row["state"], row["producers"]) for rows in listed for row in rows if row["log_dir"] == "/memory"]
    assert said == [("online", "refused"), ("online", "slowed"), ("online", "accepted")]
    assert [row["producers"] for row in listed[0] if row["state"] == "offline"] == [None]


async def test_the_status_names_the_log_dirs_that_are_offline_though_other_brokers_lead(
    http: httpx.AsyncClient,
) -> None:
    rows = (await http.get(f"{ROOT}/status")).json()["offline_log_dirs"]
    assert rows == [{"broker_id": 0, "log_dir": "/broken"}]


async def test_the_status_waits_for_a_silent_broker_less_long_than_its_reader_waits_for_it(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    backend.silent = {0, 1}  # stopped, and not fenced yet; 0 leads what moves, too
    backend.space = {0: (1_000_000, 9_000), 3: (1_000_000, 9_000)}
    status = (await http.get(f"{ROOT}/status")).json()
    assert 0 < backend.waited_ms < ANSWER_SECONDS * 1000 / 2
    assert [row["broker_id"] for row in status["log_dirs_under_pressure"]] == [3]
    assert status["silent_brokers"] == [0, 1]
    assert [row["copied_bytes"] for row in status["reassignments"]] == [None]


async def test_the_status_is_one_page(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.min_insync_replicas = 2
    status = (await http.get(f"{ROOT}/status")).json()
    assert (status["controller"]["controller_id"], status["controller"]["controller_epoch"]) == (0, 7)
    assert [(row["state"], row["leader_count"], row["replica_count"]) for row in status["brokers"]] == [
        ("live", 2, 3),
        ("live", 0, 3),
        ("fenced", 0, 2),
        ("controlled-shutdown", 0, 1),
    ]
    counts = {key: value["count"] for key, value in status.items() if isinstance(value, dict) and "count" in value}
    assert counts == {
        "offline_partitions": 1,
        "under_replicated_partitions": 1,
        "under_min_isr_partitions": 1,
        "at_min_isr_partitions": 1,
        "preferred_replica_imbalance": 1,
        "reassigning_partitions": 1,
    }
    assert status["offline_partitions"]["partitions"] == [{"topic_name": "orders", "partition_id": 1}]
    assert status["reassignments"][0]["copied_bytes"] == 250


async def test_many_partitions_move_with_several_requests(backend: MemoryBackend) -> None:
    backend.set_partitions("large", *(partition(0, 1, replicas=(0, 1)) for _ in range(2001)))
    asked, ask = list[int](), backend.ask_controller

    async def count(message: Any, *rest: Any, **more: Any) -> Any:
        asked.append(sum(len(topic.partitions) for topic in message.topics))
        return await ask(message, *rest, **more)

    backend.ask_controller = count  # type: ignore[method-assign]
    await reassignments.alter(backend, {("large", index): (0, 3) for index in range(2001)})
    assert asked == [1000, 1000, 1]
    assert all(part.replicas == (0, 3) for part in backend.image().topics["large"].partitions)

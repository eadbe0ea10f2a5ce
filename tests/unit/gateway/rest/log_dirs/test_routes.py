"""Moves of replicas between the log dirs of a broker over HTTP (KIP-113)."""

from uuid import UUID

import httpx
import pytest

from support.rest_backend import MemoryBackend
from tailrace.metadata.image import BrokerImage, PartitionImage

ROOT = "/v3/clusters/memory"
MOVE = f"{ROOT}/topics/orders/partitions/0/replicas/1/log-dir-move"


@pytest.fixture
def backend() -> MemoryBackend:
    """orders-0 lies on the brokers 0, 1 and 2, of which the last is fenced."""
    memory = MemoryBackend(brokers=2)
    memory.set_broker(BrokerImage(2, 5, UUID(int=9), fenced=True))
    memory.set_partitions("orders", PartitionImage((0, 1, 2), (0, 1), 0, 4, 1))
    memory.sizes = {(1, "orders", 0): 1000}
    return memory


async def test_a_move_is_started_watched_and_cancelled(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    assert (await http.get(MOVE)).status_code == 404
    assert (await http.put(MOVE, json={"log_dir": "/second"})).status_code == 204
    backend.moves[1, "orders", 0] = 250
    row = (await http.get(MOVE)).json()
    assert (row["kind"], row["topic_name"], row["partition_id"], row["broker_id"]) == (
        "TailraceLogDirMove",
        "orders",
        0,
        1,
    )
    assert (row["source_log_dir"], row["target_log_dir"]) == ("/memory", "/second")
    assert (row["copied_bytes"], row["total_bytes"], row["offset_lag"]) == (250, 1000, 9)
    assert row["metadata"]["self"].endswith(MOVE)
    assert row["replica"]["related"].endswith("/topics/orders/partitions/0/replicas/1")
    assert (await http.get(f"{ROOT}/brokers/1/log-dir-moves")).json()["data"] == [row]
    assert (await http.get(f"{ROOT}/brokers/0/log-dir-moves")).json()["data"] == []
    assert (await http.delete(MOVE)).status_code == 204
    assert (await http.get(f"{ROOT}/brokers/1/log-dir-moves")).json()["data"] == []
    assert (await http.delete(MOVE)).status_code == 404


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [("/elsewhere", 404, "/elsewhere is none of the broker's log.dirs."), ("/broken", 500, "is offline")],
)
async def test_a_move_that_cannot_be_is_refused_in_a_sentence(
    http: httpx.AsyncClient, path: str, status: int, says: str
) -> None:
    refused = await http.put(MOVE, json={"log_dir": path})
    assert refused.status_code == status
    assert says in refused.json()["message"]


@pytest.mark.parametrize(
    "place",
    [
        "topics/orders/partitions/0/replicas/7/log-dir-move",  # no replica there
        "topics/orders/partitions/3/replicas/1/log-dir-move",
        "topics/nothing/partitions/0/replicas/1/log-dir-move",
    ],
)
async def test_what_is_not_there_is_a_404(http: httpx.AsyncClient, place: str) -> None:
    assert (await http.get(f"{ROOT}/{place}")).status_code == 404


@pytest.mark.parametrize("place", ["topics/orders/partitions/0/replicas/2/log-dir-move", "brokers/2/log-dir-moves"])
async def test_a_fenced_broker_cannot_be_asked(http: httpx.AsyncClient, place: str) -> None:
    assert (await http.get(f"{ROOT}/{place}")).status_code == 503

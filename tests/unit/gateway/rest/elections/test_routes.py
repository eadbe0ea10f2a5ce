"""Elections over HTTP: preferred leaders, leaders of partitions without one, and why one is not elected."""

from typing import Any

import httpx
import pytest

from support.rest_backend import MemoryBackend
from tailrace.metadata.image import PartitionImage

PATH = "/v3/clusters/memory/leaders:elect"


@pytest.fixture
def backend() -> MemoryBackend:
    """Partition 0 is led by its preferred replica, 1 by another, 2 by another while that one is out of sync."""
    memory = MemoryBackend(brokers=2)
    memory.set_partitions(
        "orders",
        PartitionImage((0, 1), (0, 1), 0, 0, 0),
        PartitionImage((0, 1), (0, 1), 1, 0, 0),
        PartitionImage((0, 1), (1,), 1, 0, 0),
    )
    memory.set_partitions("lost", PartitionImage((0, 1), (), -1, 0, 0, last_known_elr=(1,)))
    return memory


async def elected(http: httpx.AsyncClient, **wanted: Any) -> dict[tuple[str, int], tuple[int | None, str | None]]:
    answer = await http.post(PATH, json=wanted)
    assert answer.status_code == 200, answer.text
    assert answer.json()["kind"] == "TailraceLeaderElectionList"
    return {
        (row["topic_name"], row["partition_id"]): (row["leader_id"], row["message"]) for row in answer.json()["data"]
    }


async def test_preferred_leaders_are_elected_where_they_do_not_lead(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    found = await elected(http)
    assert found["orders", 1] == (0, None)
    assert found["orders", 2] == (1, "The preferred leader was not available.")
    assert ("orders", 0) not in found, "it needs none"
    assert [part.leader for part in backend.image().topics["orders"].partitions] == [0, 0, 1]


async def test_only_what_is_named_is_elected(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    assert await elected(http, topics=[{"topic_name": "orders", "partition_ids": [0]}]) == {}
    assert backend.image().topics["orders"].partitions[1].leader == 1
    assert set(await elected(http, topics=[{"topic_name": "orders"}])) == {("orders", 1), ("orders", 2)}


async def test_an_unclean_election_is_held_where_none_leads(http: httpx.AsyncClient) -> None:
    topics = [{"topic_name": "lost"}]
    assert await elected(http, election_type="UNCLEAN", topics=topics) == {("lost", 0): (1, None)}, "the last known one"


async def test_an_unclean_election_of_every_partition_needs_one_more_word(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    answer = await http.post(PATH, json={"election_type": "UNCLEAN"})
    assert (answer.status_code, backend.asked) == (409, [])
    assert "force=true" in answer.json()["message"]
    answer = await http.post(f"{PATH}?force=true", json={"election_type": "UNCLEAN"})
    assert [(row["topic_name"], row["leader_id"]) for row in answer.json()["data"]] == [("lost", 1)]


async def test_a_topic_is_expanded_once_however_often_it_is_named(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    topics = [{"topic_name": "orders"}, {"topic_name": "orders", "partition_ids": [1]}] * 500
    assert set(await elected(http, topics=topics)) == {("orders", 1), ("orders", 2)}
    ((_, asked),) = backend.asked
    assert [(row.topic, row.partitions) for row in asked.topic_partitions] == [("orders", [0, 1, 2])]


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ({"topics": []}, 400),
        ({"election_type": "UNCLEAN", "topics": []}, 400),
        ({"topics": [{"topic_name": "none"}]}, 404),
        ({"topics": [{"topic_name": "none", "partition_ids": [0]}]}, 404),
        ({"election_type": "ANY"}, 400),
        ({"kind": "x"}, 400),
    ],
)
async def test_what_cannot_be_elected_is_refused(http: httpx.AsyncClient, wanted: dict[str, Any], status: int) -> None:
    assert (await http.post(PATH, json=wanted)).status_code == status

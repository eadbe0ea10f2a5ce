"""Every link that an answer prints leads to something, on a cluster that has one of each."""

import struct
from typing import Any
from uuid import UUID

import httpx

from support.rest_backend import MemoryBackend, MemoryGroup
from support.rest_links import dead, followed
from tailrace.metadata.image import BrokerImage, PartitionImage
from tailrace.wire.hot.producers import DescribedProducer, PartitionProducers, pack
from tailrace.wire.messages import DescribeCleanerResponse, DescribeGroupsResponse, DescribeOpenTransactionsResponse

ROOT = "/v3/clusters/memory"
# What nothing links to: those who know of it ask for it.
UNLINKED = ("status", "users", "remove-broker-tasks", "brokers/0/log-dir-moves", "topics/orders/partitions/0/producers")


def assigned(topic: str, partition: int) -> bytes:
    return struct.pack(f">hih{len(topic)}siii", 1, 1, len(topic), topic.encode(), 1, partition, -1)


def fill(backend: MemoryBackend) -> None:
    backend.set_broker(BrokerImage(2, 1, UUID(int=3), fenced=False))
    still = PartitionImage((0, 1), (0, 1), 0, 0, 0)
    moving = PartitionImage((0, 1, 2), (0, 1), 0, 0, 0, adding_replicas=(1,), removing_replicas=(2,))
    unled = PartitionImage((0,), (0,), -1, 0, 0)
    backend.set_partitions("orders", still, moving)
    backend.set_partitions("unled", unled)
    backend.sizes = {(node, "orders", n): 100 for node in (0, 1, 2) for n in (0, 1)}
    backend.moves = {(0, "orders", 0): 50}
    backend.described = PartitionProducers(0, 0, None, pack([DescribedProducer(7, 0, 5, 1000, -1, -1)]))
    opened = DescribeOpenTransactionsResponse.OpenTransaction
    backend.opened[0] = [opened(topic_name="orders", partition_index=0, producer_id=7, last_timestamp=1000)]
    row = DescribeCleanerResponse.CleanedPartition
    backend.cleaned[0] = [row(partition_index=0, dirty_ratio=0.5, cleaned_offset=1, last_cleaned_ms=-1)]
    member: Any = DescribeGroupsResponse.DescribedGroup.DescribedGroupMember
    members = [
        member(member_id="a/1", client_id="a", member_assignment=assigned("orders", 0)),
        member(member_id="b", client_id="b", member_assignment=assigned("orders", 1)),  # committed nothing
    ]
    backend.groups = {
        "group/of two": MemoryGroup("Stable", members, {("orders", 0): 0, ("deleted", 3): 1}),
        "nothing committed": MemoryGroup(),
        "nobody there": MemoryGroup(offsets={("orders", 1): 0}),
    }


async def test_no_link_of_any_answer_is_dead(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    fill(backend)

    async def get(place: str) -> tuple[int, Any]:
        answer = await http.get(place)
        return answer.status_code, answer.json()

    more = (
        *UNLINKED,
        "topics/-/partitions/-/transactions",
        "topics/orders/partitions/-/compaction",
        "topics/orders/partitions/-/reassignment",
    )
    found = await followed(get, "/v3/clusters", *(f"{ROOT}/{place}" for place in more))
    assert dead(found) == {}
    reached = {place.removeprefix("http://here").removeprefix(ROOT + "/") for place in found}
    assert {
        "brokers/2/log-dirs",
        "topics/orders/partitions/1/reassignment",
        "topics/orders/partitions/0/compaction/0",
        "topics/orders/partitions/0/producers/7",
        "topics/orders/partitions/0/replicas/0/log-dir-move",
        "topics/orders/configs/retention.ms",
        "consumer-groups/group%2Fof%20two/consumers/a%2F1/assignments/orders/partitions/0",
        "consumer-groups/group%2Fof%20two/lags/orders/partitions/0",
        "consumer-groups/nothing%20committed/lag-summary",
        "remove-broker-tasks/2",
    } <= reached

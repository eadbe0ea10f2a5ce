"""Lists of very many rows: the gateway's event loop relays data as well, so a thread makes them."""

import random
from collections.abc import Callable, Iterator

import httpx
import pytest
from fastapi.responses import StreamingResponse

from support.rest_backend import MemoryBackend, MemoryGroup
from tailrace.clock import ManualClock
from tailrace.metadata.image import PartitionImage
from tailrace.wire.messages import DescribeGroupsResponse
from tailrace_gateway.rest.models import Link, Metadata
from tailrace_gateway.rest.scope import WHOLE_BYTES, ClusterScope, Part, Services

ROOT = "/v3/clusters/memory"
MANY = 2_000


def _topics(backend: MemoryBackend, count: int) -> None:
    for number in range(count):
        backend.set_topic(f"topic-{number}", 1)


def _partitions(backend: MemoryBackend, count: int) -> None:
    backend.set_partitions("wide", *[PartitionImage((0,), (0,), 0, 0, 0)] * count)


def _quotas(backend: MemoryBackend, count: int) -> None:
    backend.set_quotas({(("client-id", f"app-{number}"),): {"producer_byte_rate": 5.0} for number in range(count)})


def _groups(backend: MemoryBackend, count: int) -> None:
    backend.groups = {f"group-{number}": MemoryGroup() for number in range(count)}


def _members(backend: MemoryBackend, count: int) -> None:
    member = DescribeGroupsResponse.DescribedGroup.DescribedGroupMember
    members = [
        member(
            member_id=f"member-{number}",
            group_instance_id=None,
            client_id="app",
            client_host="here",
            member_metadata=b"",
            member_assignment=b"",
        )
        for number in range(count)
    ]
    backend.groups = {"large": MemoryGroup("Stable", members)}


@pytest.mark.parametrize(
    ("fill", "path"),
    [
        (_topics, "/topics"),
        (_partitions, "/topics/wide/partitions"),
        (_partitions, "/brokers/0/partition-replicas"),
        (_quotas, "/quotas"),
        (_groups, "/consumer-groups"),
        (_members, "/consumer-groups/large/consumers"),
    ],
)
async def test_a_long_list_is_made_in_a_thread(
    fill: Callable[[MemoryBackend, int], None],
    path: str,
    http: httpx.AsyncClient,
    backend: MemoryBackend,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, in_thread = 0, True
    metadata = ClusterScope.metadata

    def counted(scope: ClusterScope, *parts: Part) -> Metadata:
        nonlocal made, in_thread
        made, in_thread = made + 1, in_thread and backend.runs
        return metadata(scope, *parts)

    fill(backend, MANY)
    monkeypatch.setattr(ClusterScope, "metadata", counted)
    answer = await http.get(ROOT + path)
    assert len(answer.json()["data"]) == made == MANY
    assert in_thread


async def test_a_list_of_very_many_bytes_is_made_as_the_client_takes_it(backend: MemoryBackend) -> None:
    made = 0

    def rows() -> Iterator[Link]:
        nonlocal made
        for made in range(1, MANY + 1):  # noqa: B007 - looked at below
            yield Link(related="x" * 32_000)

    services = Services(backend, ManualClock(), random.Random(1))
    answer = await ClusterScope(services, backend.image(), "http://here").listed("Links", ("links",), rows())
    assert isinstance(answer, StreamingResponse)
    at_first = made
    size_bytes = 0
    async for part in answer.body_iterator:
        size_bytes += len(part)
        assert len(part) <= WHOLE_BYTES + (1 << 20)
    assert at_first * 32_000 <= WHOLE_BYTES + (1 << 20)
    assert (made, size_bytes // 32_000) == (MANY, MANY)

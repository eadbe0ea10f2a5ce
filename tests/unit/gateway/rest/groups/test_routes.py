"""The age and the trend of a lag over HTTP, and offset resets with their preview."""

from __future__ import annotations

import random
from typing import Any

import httpx
import pytest

from support.rest_backend import MemoryBackend, MemoryGroup
from tailrace.clock import ManualClock
from tailrace.records.record import Record
from tailrace.wire.messages import DescribeGroupsResponse, ListOffsetsRequest
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.hosts import HostRules

ROOT = "/v3/clusters/memory/consumer-groups"
NOW_MS = 1_700_000_000_000


@pytest.fixture
def backend() -> MemoryBackend:
    """Two partitions with ten records, each a second younger than the one before, the last of now."""
    made = MemoryBackend()
    made.set_topic("orders", 2)
    for partition in (0, 1):
        made.records["orders", partition] = [Record(timestamp=NOW_MS - 1000 * (9 - n), value=b"v") for n in range(10)]
    made.groups["billing"] = MemoryGroup(offsets={("orders", 0): 6})
    return made


def with_member(backend: MemoryBackend) -> None:
    member = DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(member_id="m-1")
    backend.groups["billing"].members = [member]


class Clock(ManualClock):
    """While it sleeps, the group commits two offsets more."""

    def __init__(self, backend: MemoryBackend) -> None:
        super().__init__(NOW_MS)
        self._backend = backend

    async def sleep(self, delay_ms: float) -> None:
        self._backend.groups["billing"].offsets["orders", 0] += 2
        self.advance(delay_ms)


def client(backend: MemoryBackend) -> httpx.AsyncClient:
    app = create_app(backend, Clock(backend), random.Random(1), HostRules(["here"]))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here")


async def test_a_lag_has_the_age_of_the_next_record_and_a_trend_where_it_is_looked_at_twice(
    backend: MemoryBackend,
) -> None:
    async with client(backend) as http:
        (row,) = (await http.get(f"{ROOT}/billing/lags")).json()["data"]
        figures = ("lag", "lag_seconds", "next_timestamp_ms", "lag_trend")
        assert [row[name] for name in figures] == [4, 3.0, NOW_MS - 3000, None]
        summary = (await http.get(f"{ROOT}/billing/lag-summary")).json()
        assert (summary["max_lag_seconds"], summary["uncommitted_partition_count"]) == (3.0, 0)
        (row,) = (await http.get(f"{ROOT}/billing/lags", params={"trend_ms": 500})).json()["data"]
        assert (row["lag"], row["lag_trend"]) == (2, -4.0)


@pytest.mark.parametrize("path", ["lags", "lag-summary", "lags/orders/partitions/0"])
async def test_the_end_is_the_last_stable_offset_where_that_is_asked_for(path: str, backend: MemoryBackend) -> None:
    async with client(backend) as http:
        asked = {"isolation_level": "read_committed"}
        assert (await http.get(f"{ROOT}/billing/{path}", params=asked)).status_code == 200
        assert (await http.get(f"{ROOT}/billing/{path}", params={"isolation_level": "dirty"})).status_code == 400
    levels = [message.isolation_level for _, message in backend.asked if isinstance(message, ListOffsetsRequest)]
    assert levels == [1]


async def reset(http: httpx.AsyncClient, group: str = "billing", **wish: Any) -> Any:
    return await http.post(f"{ROOT}/{group}/offsets:reset", json=wish)


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({"to": "EARLIEST"}, {0: (6, 0)}),
        ({"to": "LATEST", "topics": [{"topic_name": "orders"}]}, {0: (6, 10), 1: (None, 10)}),
        ({"to": "CURRENT", "topic_regex": "ord.*"}, {0: (6, 6), 1: (None, 10)}),
        ({"to": "OFFSET", "value": 99, "topics": [{"topic_name": "orders", "partition_ids": [1]}]}, {1: (None, 10)}),
        ({"to": "SHIFT", "value": -2}, {0: (6, 4)}),
        ({"to": "DATETIME", "value": "2023-11-14T22:13:18"}, {0: (6, 7)}),
        ({"to": "DURATION", "value": "PT1S"}, {0: (6, 8)}),
        ({"to": "OFFSETS", "offsets": [{"topic_name": "orders", "partition_id": 1, "offset": 3}]}, {1: (None, 3)}),
    ],
)
async def test_a_reset_is_previewed_and_then_done(
    wish: dict[str, Any], expected: dict[int, tuple[int | None, int]], backend: MemoryBackend
) -> None:
    async with client(backend) as http:
        for validate_only in (True, False):
            told = (await reset(http, **wish, validate_only=validate_only)).json()["data"]
            found = {row["partition_id"]: (row["current_offset"], row["new_offset"]) for row in told}
            assert found == expected
            offsets = backend.groups["billing"].offsets
            if validate_only:
                assert offsets == {("orders", 0): 6}
    assert {key: offsets["orders", key] for key in expected} == {key: new for key, (_, new) in expected.items()}


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        ({"to": "BEGINNING"}, 400),
        ({"to": "OFFSET"}, 400),
        ({"to": "OFFSET", "value": -1}, 400),
        ({"to": "SHIFT", "value": "far"}, 400),
        ({"to": "DATETIME", "value": "yesterday"}, 400),
        ({"to": "DURATION", "value": 5}, 400),
        ({"to": "EARLIEST", "value": 5}, 400),
        ({"to": "OFFSETS"}, 400),
        ({"to": "EARLIEST", "offsets": [{"topic_name": "orders", "partition_id": 0, "offset": 3}]}, 400),
        ({"to": "EARLIEST", "topic_regex": "("}, 400),
        ({"to": "EARLIEST", "topic_regex": "nope"}, 400),
        ({"to": "SHIFT", "value": 1, "topics": [{"topic_name": "orders"}]}, 400),
        ({"to": "EARLIEST", "topics": [{"topic_name": "nope"}]}, 404),
        ({"to": "EARLIEST", "topics": [{"topic_name": "orders", "partition_ids": [7]}]}, 404),
    ],
)
async def test_a_wish_that_makes_no_sense_is_refused(wish: dict[str, Any], status: int, backend: MemoryBackend) -> None:
    async with client(backend) as http:
        assert (await reset(http, **wish)).status_code == status
    assert backend.groups["billing"].offsets == {("orders", 0): 6}


async def test_a_group_with_members_is_not_reset_and_one_that_is_new_begins_with_its_offsets(
    backend: MemoryBackend,
) -> None:
    async with client(backend) as http:
        made = await reset(http, "new", to="LATEST", topics=[{"topic_name": "orders", "partition_ids": [0]}])
        assert made.status_code == 200
        assert backend.groups["new"].offsets == {("orders", 0): 10}
        with_member(backend)
        for validate_only in (True, False):
            assert (await reset(http, to="EARLIEST", validate_only=validate_only)).json()["error_code"] == 40002
    assert backend.groups["billing"].offsets == {("orders", 0): 6}

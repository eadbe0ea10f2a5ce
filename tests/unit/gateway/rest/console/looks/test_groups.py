"""Groups and their lag, a few of them at each look."""

from __future__ import annotations

from typing import Any

from support.rest_backend import MemoryBackend, MemoryGroup
from tailrace.clock import ManualClock
from tailrace.records.record import Record
from tailrace.wire.messages import ListOffsetsResponse
from tailrace_gateway.rest.console.looks.groups import LAGS_MAX, GroupsLook, group


def cluster(groups: int) -> MemoryBackend:
    backend = MemoryBackend()
    backend.set_topic("orders", 1)
    backend.log("orders", 0).extend([Record(value=b"1", timestamp=0), Record(value=b"2", timestamp=0)])
    for n in range(groups):
        backend.groups[f"group-{n:03}"] = MemoryGroup("Stable", [], {("orders", 0): 1})
    return backend


async def test_the_lag_of_every_group_has_its_turn() -> None:
    backend = cluster(2 * LAGS_MAX)
    looking = GroupsLook(backend, ManualClock())
    first = (await looking.look()).rows
    assert sum("lag" in row for row in first.values()) == LAGS_MAX
    second = (await looking.look()).rows
    assert [row["lag"] for row in second.values()] == [1] * 2 * LAGS_MAX
    assert second["group-000"]["worst"] == ["orders", 0]
    del backend.groups["group-000"]
    assert "group-000" not in (await looking.look()).rows


async def test_a_lag_that_cannot_be_asked_for_is_unknown_and_says_why() -> None:
    backend = cluster(1)
    backend.silent = {0}
    (row,) = (await GroupsLook(backend, ManualClock()).look()).rows.values()
    assert (row["lag"], row["lag_failure"]) == (None, "no answer")


async def test_a_lag_of_which_a_partition_is_unknown_is_no_sum_of_the_others() -> None:
    backend = cluster(1)
    backend.set_topic("far", 1)
    backend.groups["group-000"] = MemoryGroup("Stable", [], {("orders", 0): 1, ("far", 0): 0})
    asked = backend.ask_broker

    async def without_far(*arguments: Any, **named: Any) -> Any:
        answer = await asked(*arguments, **named)
        if isinstance(answer, ListOffsetsResponse):
            answer.topics = [topic for topic in answer.topics if topic.name != "far"]
        return answer

    backend.ask_broker = without_far  # type: ignore[method-assign]
    (row,) = (await GroupsLook(backend, ManualClock()).look()).rows.values()
    assert (row["lag"], row["lag_failure"]) == (None, "no answer for far-0")
    assert "worst" not in row
    backend.ask_broker = asked  # type: ignore[method-assign]
    (row,) = (await GroupsLook(backend, ManualClock()).look()).rows.values()
    assert "lag_failure" not in row


async def test_a_group_has_its_members_and_partitions() -> None:
    rows = (await group(cluster(1), ManualClock(), "group-000")).rows
    assert rows["group"] == {"state": "STABLE", "type": "CLASSIC", "assignor": "range"}
    assert rows["partition:orders:0"]["lag"] == 1

"""Topics with their records, bytes and rates."""

from __future__ import annotations

from typing import Any

import pytest

from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace.errors import ApiError, ErrorCode
from tailrace.records.record import Record
from tailrace_gateway.rest.console.looks.topics import FIGURES_MS, PARTITION_MS, FiguresLook, PartitionsLook, TopicsLook
from tailrace_gateway.rest.errors import RestError


@pytest.fixture
def backend() -> MemoryBackend:
    made = MemoryBackend(brokers=2)
    made.set_topic("orders", 2)
    made.sizes = {(0, "orders", 0): 100, (0, "orders", 1): 20}
    return made


async def test_a_topic_that_has_not_changed_keeps_its_row(backend: MemoryBackend) -> None:
    looking = TopicsLook(backend)
    first = (await looking.look()).rows
    assert (await looking.look()).rows is first
    backend.set_topic("new", 1)
    second = (await looking.look()).rows
    assert second["orders"] is first["orders"] and "new" in second


async def test_figures_are_sums_over_partitions_and_rates_need_two_looks(backend: MemoryBackend) -> None:
    clock = ManualClock()
    looking = FiguresLook(backend, clock)
    backend.log("orders", 0).append(Record(value=b"1"))
    assert (await looking.look()).rows["orders"] == {"records": 1, "bytes": 120, "rate": None}
    backend.log("orders", 1).extend([Record(value=b"2"), Record(value=b"3")])
    clock.advance(4_000)
    assert (await looking.look()).rows["orders"] == {"records": 3, "bytes": 120, "rate": 0.5}


async def test_what_a_silent_leader_has_is_unknown_and_no_zero(backend: MemoryBackend) -> None:
    backend.silent = {0}
    found = await FiguresLook(backend, ManualClock()).look()
    assert found.rows["orders"] == {"records": None, "bytes": None, "rate": None}
    assert found.note == "Not known of what broker 0 leads: no answer."


async def test_without_the_right_to_sizes_the_offsets_are_known(backend: MemoryBackend) -> None:
    ask = backend.ask_broker

    async def refused(node: int, message: Any, *rest: Any) -> Any:
        if type(message).__name__ == "DescribeLogDirsRequest":
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return await ask(node, message, *rest)

    backend.ask_broker = refused  # type: ignore[method-assign,assignment]
    found = await FiguresLook(backend, ManualClock()).look()
    assert found.rows["orders"] == {"records": 0, "bytes": None, "rate": None}
    assert found.note == ""


async def test_the_wait_between_two_looks_grows_with_the_partitions(backend: MemoryBackend) -> None:
    looking = FiguresLook(backend, ManualClock())
    assert (await looking.look()).wait_ms == FIGURES_MS
    backend.set_topic("large", 9_998)
    assert (await looking.look()).wait_ms == 10_000 * PARTITION_MS


async def test_partitions_of_one_topic_and_of_none(backend: MemoryBackend) -> None:
    backend.log("orders", 1).append(Record(value=b"1"))
    rows = (await PartitionsLook(backend, ManualClock(), "orders").look()).rows
    assert [(rows[n]["start"], rows[n]["end"], rows[n]["bytes"]) for n in ("0", "1")] == [(0, 0, 100), (0, 1, 20)]
    with pytest.raises(RestError):
        await PartitionsLook(backend, ManualClock(), "none").look()

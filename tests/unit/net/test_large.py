"""Large requests and answers are decoded and encoded by a thread, while others are answered."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from support.waiting import HUNG_S
from tailrace.net import garbage_collection
from tailrace.net import large as large_module
from tailrace.net.address import Address
from tailrace.net.client import Client, Disconnected
from tailrace.net.context import Context
from tailrace.net.dispatch import Handler, Service
from tailrace.net.garbage_collection import SOON_SECONDS, VERY_LARGE_BYTES, Collections
from tailrace.net.large import LARGE_BYTES, MANY_ROWS, Large, has_many_rows
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.server import serve
from tailrace.wire import codec
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.header import parse_request_header
from tailrace.wire.limits import HIGHEST
from tailrace.wire.messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListTransactionsResponse,
    MetadataResponse,
)

ROWS = 4000
_Topic = ListOffsetsRequest.ListOffsetsTopic
_Wanted = _Topic.ListOffsetsPartition
_Found = ListOffsetsResponse.ListOffsetsTopicResponse
_Row = _Found.ListOffsetsPartitionResponse


async def heartbeat(request: HeartbeatRequest, context: Context, role: None) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=0)


async def list_offsets(request: ListOffsetsRequest, context: Context, role: None) -> ListOffsetsResponse:
    rows = [_Row(partition_index=row.partition_index, error_code=0) for row in request.topics[0].partitions]
    return ListOffsetsResponse(topics=[_Found(name="t", partitions=rows)])


HANDLERS: dict[int, Handler] = {ApiKey.HEARTBEAT: heartbeat, ApiKey.LIST_OFFSETS: list_offsets}


@asynccontextmanager
async def clients(path: Path) -> AsyncIterator[tuple[Client, Client]]:
    service = Service(role=None, handlers=HANDLERS, apis=INTERNAL_APIS, log=structlog.get_logger(), memory=RoleMemory())
    server = await serve([Address(str(path / "s"), -1)], service)
    large, other = (Client(server.addresses[0], name) for name in ("large", "other"))
    try:
        yield large, other
    finally:
        await large.close()
        await other.close()
        await server.close()


def request(rows: int = ROWS) -> ListOffsetsRequest:
    wanted = [_Wanted(partition_index=index, current_leader_epoch=-1, timestamp=-1) for index in range(rows)]
    return ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[_Topic(name="t", partitions=wanted)])


async def beats(client: Client) -> bool:
    asked = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    answer = await client.ask(asked, timeout_ms=60_000, version=4)
    return bool(answer.error_code == 0)


class Halted:
    """A function of the codec that waits in the thread until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.begun, self.go_on = asyncio.Event(), threading.Event()
        self.count = 0
        self._loop, self._really = asyncio.get_running_loop(), getattr(codec, name)
        monkeypatch.setattr(codec, name, self)

    def __call__(self, *arguments: Any) -> Any:
        if threading.current_thread().name.startswith("codec"):
            self.count += 1
            self._loop.call_soon_threadsafe(self.begun.set)
            assert self.go_on.wait(HUNG_S)
        return self._really(*arguments)


@pytest.mark.parametrize("name", ["decode_request", "encode_large_response", "decode_response"])
async def test_others_are_answered_while_a_thread_has_a_large_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async with clients(tmp_path) as (large, other):
        halted = Halted(monkeypatch, name)
        asked = asyncio.create_task(large.ask(request(), timeout_ms=60_000, version=6))
        try:
            await asyncio.wait_for(halted.begun.wait(), HUNG_S)
            assert await beats(other) and await beats(other)
            assert not asked.done()
        finally:
            halted.go_on.set()
        found = await asked
        assert [row.partition_index for row in found.topics[0].partitions] == list(range(ROWS))
        assert halted.count == 1
        assert await beats(large)


async def test_small_ones_need_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with clients(tmp_path) as (large, _):
        names = ("decode_request", "encode_response", "decode_response")
        halted = [Halted(monkeypatch, name) for name in names]
        answer = await large.ask(request(100), timeout_ms=60_000, version=6)
        assert len(answer.topics[0].partitions) == 100
        assert not any(one.count for one in halted)


async def test_what_follows_a_large_request_on_its_connection_is_answered_after_it(tmp_path: Path) -> None:
    async with clients(tmp_path) as (large, _):
        frame = codec.encode_request(request(), 6, 1, "large")
        first = asyncio.create_task(large.ask_raw(frame, timeout_ms=60_000))
        second = asyncio.create_task(beats(large))
        done, _ = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
        assert first in done and await second


async def test_a_large_request_that_cannot_be_parsed_closes_its_connection_and_nothing_else(tmp_path: Path) -> None:
    async with clients(tmp_path) as (large, other):
        frame = codec.encode_request(request(), 6, 1, "large")
        broken = (len(frame) - 4 - 8).to_bytes(4, "big") + frame[4:-8]
        assert len(broken) > LARGE_BYTES
        with pytest.raises(Disconnected):
            await large.ask_raw(broken, timeout_ms=60_000)
        assert await beats(other) and await beats(large)


async def test_a_client_that_leaves_meanwhile_disturbs_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with clients(tmp_path) as (large, other):
        halted = Halted(monkeypatch, "decode_request")
        asked = asyncio.create_task(large.ask(request(), timeout_ms=60_000, version=6))
        try:
            await asyncio.wait_for(halted.begun.wait(), HUNG_S)
            large.abort()
            with pytest.raises(Disconnected):
                await asked
            assert await beats(other)
        finally:
            halted.go_on.set()
        assert len((await large.ask(request(), timeout_ms=60_000, version=6)).topics[0].partitions) == ROWS


def test_where_no_thread_can_be_started_nothing_is_held_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    collects = gc.isenabled()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="new thread"):
        Large().begin(lambda: None)
    assert gc.isenabled() == collects


async def test_a_collection_that_is_due_takes_place_between_two_very_large_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used, events, go_on, begun = [0.0], list[str](), asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(large_module, "COLLECTIONS", Collections(lambda: used[0]))
    monkeypatch.setattr(gc, "collect", lambda: events.append("collected"))
    large, body = Large(), memoryview(codec.encode_request(request(HIGHEST), 6, 1, "x"))
    body = body[4 + parse_request_header(body[4:]).body_offset :]
    assert len(body) >= VERY_LARGE_BYTES

    async def ask(name: str) -> None:
        async with large.request(ApiKey.LIST_OFFSETS, 6, body):
            events.append(f"{name} is there")
            begun.set()
            await go_on.wait()
        events.append(f"{name} has ended")

    first = asyncio.create_task(ask("first"))
    await begun.wait()
    used[0] = SOON_SECONDS + 1
    second = asyncio.create_task(ask("second"))
    for _ in range(100):
        await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(first, second)
    assert events == ["first is there", "first has ended", "collected", "second is there", "second has ended"]
    await large.run(int)  # which lets the rows go before
    assert gc.isenabled()


async def test_a_collection_that_is_due_waits_for_a_request_some_seconds_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used, collected = [0.0], asyncio.Event()
    gc.enable()  # the thread of another test may still hold collections for rows that it lets go
    collections = Collections(lambda: used[0])
    with collections.while_in_use(VERY_LARGE_BYTES):
        used[0] = SOON_SECONDS + 1
        monkeypatch.setattr(garbage_collection, "_LONGEST_WAIT_SECONDS", 0.0)
        monkeypatch.setattr(gc, "collect", collected.set)
        await collections.pause()
        collections.collect_soon()
        assert collected.is_set() and not collections.soon
    assert gc.isenabled()


def rows(count: int) -> list[Any]:
    return [_Row(partition_index=index, error_code=0) for index in range(count)]


@pytest.mark.parametrize(
    ("response", "many"),
    [
        (lambda: ListOffsetsResponse(topics=[]), False),
        (lambda: ListOffsetsResponse(topics=[_Found(name="t", partitions=rows(MANY_ROWS - 1))]), False),
        (lambda: ListOffsetsResponse(topics=[_Found(name="t", partitions=rows(MANY_ROWS))]), True),
        (lambda: ListOffsetsResponse(topics=[_Found(name="t", partitions=rows(9)) for _ in range(49)]), False),
        (lambda: ListOffsetsResponse(topics=[_Found(name="t", partitions=rows(9)) for _ in range(51)]), True),
        (lambda: MetadataResponse(brokers=[], cluster_id="c", controller_id=0, topics=[]), False),
    ],
)
def test_rows_are_counted_through_lists_of_lists(response: Callable[[], Any], many: bool) -> None:
    assert has_many_rows(response()) == many


def test_long_strings_count_as_rows() -> None:
    """A few hundred of 32 KB take as long to encode as thousands of usual ones."""
    row = ListTransactionsResponse.TransactionState
    for length, many in ((100, False), (32_000, True)):
        rows = [row(transactional_id="x" * length, producer_id=1, transaction_state="Empty")] * 50
        assert has_many_rows(ListTransactionsResponse(transaction_states=rows)) == many
        assert has_many_rows(DescribeGroupsRequest(groups=["x" * length] * 50)) == many

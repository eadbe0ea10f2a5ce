"""Fetches of very many partitions: what is named twice, who else has a turn, and what a waiting one looks at."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from support.broker import TOPIC_ID, Running, batch, running, topic
from support.waiting import turns_until
from tailrace.net.connection import Connection
from tailrace.net.limits.answer_memory import AnswerMemory
from tailrace.wire.hot.fetch import encode_fetch_answer
from tailrace.wire.messages import FetchRequest
from tailrace_broker.fetch import plain
from tailrace_broker.fetch.delayed import DelayedFetch

MANY = 1200
PARTITION = FetchRequest.FetchTopic.FetchPartition


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as it:
        it.follower.move(topics={**it.follower.image.topics, "t": topic("t", TOPIC_ID, *[0] * MANY)})
        yield it


def request(offsets: Iterable[tuple[int, int]], **fields: Any) -> FetchRequest:
    rows = [PARTITION(partition=index, fetch_offset=at, partition_max_bytes=1 << 20) for index, at in offsets]
    asked = [FetchRequest.FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=rows)]
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **fields}, topics=asked, rack_id="")


async def fetch(broker: Running, asked: FetchRequest) -> list[Any]:
    """Over another connection than produce: what waits on one holds up what comes behind it."""
    answer = await broker.service.ask(asked, timeout_ms=60_000, version=12)
    return [row for answered in answer.responses for row in answered.partitions]


async def test_a_partition_that_is_named_again_and_again_is_read_once_at_the_last_offset(broker: Running) -> None:
    await broker.produce(0, batch(b"a"), batch(b"b"))
    (row,) = await fetch(broker, request([(0, 0)] * MANY + [(0, 1)]))
    assert row.error_code == 0
    assert bytes(row.records) == bytes((await broker.fetch(0, 1)).records)


async def test_others_have_their_turn_while_many_logs_are_opened_and_read(broker: Running) -> None:
    await broker.produce(MANY - 1, batch(b"last"))
    turns, running_on = 0, True

    def turn() -> None:
        nonlocal turns
        turns += 1
        if running_on:
            asyncio.get_running_loop().call_soon(turn)

    path = asyncio.ensure_future(fetch(broker, request((index, 0) for index in range(MANY))))
    partitions = broker.broker.topics.by_name[b"t"].partitions
    await turns_until(lambda: partitions[0].opened is not None)
    turn()
    assert sum(partition.opened is not None for partition in partitions.values()) < MANY / 2
    rows = await path
    running_on = False
    assert [row.partition_index for row in rows] == list(range(MANY))
    assert [row.partition_index for row in rows if row.records] == [MANY - 1]
    assert turns > 10


async def test_a_waiting_fetch_looks_at_the_partition_that_has_news_alone(broker: Running) -> None:
    looked = list[int]()
    readable = broker.broker.topics.readable

    def counted(key: bytes, index: int, *, by_id: bool) -> Any:
        looked.append(index)
        return readable(key, index, by_id=by_id)

    broker.broker.topics.readable = counted  # type: ignore[method-assign]
    large = batch(b"x" * 1000)
    asked = request(((index, 0) for index in range(MANY)), min_bytes=2 * len(large), max_wait_ms=20_000)
    waiting = asyncio.ensure_future(fetch(broker, asked))
    await turns_until(lambda: broker.broker.wakeups.purgatory.count(DelayedFetch) > 0)
    looked.clear()
    await broker.produce(7, batch(b"a little"))
    await broker.produce(8, large)
    await asyncio.sleep(0)
    assert looked == [7, 8]
    await broker.produce(9, large)
    rows = {row.partition_index: bytes(row.records) for row in await waiting if row.records}
    assert sorted(rows) == [7, 8, 9]


async def test_a_waiting_fetch_keeps_neither_its_bytes_nor_collections_from_all_others(
    broker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client without sessions waits with all its partitions, again and again."""
    kept = list[weakref.ref[memoryview]]()
    keep = Connection.keep

    def noted(self: Connection, body: memoryview) -> memoryview:
        found = keep(self, body)
        kept.append(weakref.ref(found))
        return found

    monkeypatch.setattr(Connection, "keep", noted)
    waiting = asyncio.ensure_future(fetch(broker, request(((n, 0) for n in range(MANY)), max_wait_ms=20_000)))
    await turns_until(lambda: broker.broker.wakeups.purgatory.count(DelayedFetch) > 0)
    assert [one() for one in kept] == [None]
    assert gc.isenabled()
    await broker.produce(0, batch(b"early"))
    assert [row.partition_index for row in await waiting if row.records] == [0]


class Other:
    """Another connection."""

    def give_way(self, why: str) -> None:
        pass


async def test_a_client_that_names_many_partitions_waits_for_memory(
    broker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else many clients that ask at once, or that wait for records, have all their rows there together."""
    asked, other, found = request((n, 0) for n in range(MANY)), Other(), list[AnswerMemory]()
    room_for_rows = Connection.room_for_rows

    async def noted(self: Connection, size_bytes: int) -> None:
        if not self.session.is_service:
            found.append(self._service.memory.answers)
            await found[0].room(other, found[0].max_bytes)
        await room_for_rows(self, size_bytes)

    monkeypatch.setattr(Connection, "room_for_rows", noted)
    waiting = asyncio.create_task(broker.client.ask(asked, timeout_ms=60_000, version=12))
    await turns_until(lambda: found and found[0].waiting_count == 1)
    (answers,) = found
    assert len(await fetch(broker, asked)) == MANY  # a service waits for no client
    answers.give_back(other)
    assert len((await waiting).responses[0].partitions) == MANY
    await turns_until(lambda: not answers.held_bytes)


async def test_what_comes_while_the_others_are_still_looked_at_is_found(broker: Running) -> None:
    waiting = asyncio.ensure_future(fetch(broker, request(((n, 0) for n in range(MANY)), max_wait_ms=20_000)))
    partitions = broker.broker.topics.by_name[b"t"].partitions
    await turns_until(lambda: partitions[0].opened is not None)
    assert partitions[MANY - 1].opened is None
    await broker.produce(0, batch(b"early"))
    assert [row.partition_index for row in await waiting if row.records] == [0]


async def test_an_answer_of_many_rows_is_encoded_by_a_thread(broker: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """One step for all rows took 18 ms of a broker."""
    threads = list[str]()

    def noted(*given: Any) -> Any:
        threads.append(threading.current_thread().name.partition("_")[0])
        return encode_fetch_answer(*given)

    monkeypatch.setattr(plain, "encode_fetch_answer", noted)
    for index in (0, 500, MANY - 1):
        await broker.produce(index, batch(b"%d" % index))
    strangers = [(MANY + number, 0) for number in range(3)]
    rows = await fetch(broker, request([*((index, 0) for index in range(MANY)), *strangers]))
    assert [row.partition_index for row in rows] == list(range(MANY + 3))
    assert [row.partition_index for row in rows if row.records] == [0, 500, MANY - 1]
    assert threads == ["codec"]
    await fetch(broker, request([(0, 0), *strangers]))
    assert threads == ["codec", "MainThread"]

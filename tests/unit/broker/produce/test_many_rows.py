"""Produce of very many partitions: in pieces, with the answers and the order that a small request has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from support.broker import SECRET, TOPIC_ID, Running, batch, running, topic
from support.waiting import turns_until
from tailrace.errors import ErrorCode
from tailrace.net.client import Client, Disconnected
from tailrace.wire import codec
from tailrace.wire.messages import ProduceRequest

MANY = 500
TOPIC = ProduceRequest.TopicProduceData
ROW = TOPIC.PartitionProduceData


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as it:
        it.follower.move(topics={**it.follower.image.topics, "t": topic("t", TOPIC_ID, *[0] * MANY)})
        yield it


def request(rows: Iterable[tuple[int, bytes]], *, acks: int = 1, names: Iterable[str] = ()) -> ProduceRequest:
    """Of rows of the topic, behind a topic that nobody has and before others of them."""
    listed = [ROW(index=index, records=records) for index, records in rows]
    topics = [TOPIC(name="none", partition_data=[]), TOPIC(name="t", partition_data=listed)]
    topics += [TOPIC(name=name, partition_data=[ROW(index=0, records=batch(b"x"))]) for name in names]
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=10_000, topic_data=topics)


async def ask(client: Client, asked: ProduceRequest, version: int = 12) -> list[tuple[str, list[tuple[int, int, int]]]]:
    answer = await client.ask(asked, timeout_ms=60_000, version=version)
    return [
        (one.name, [(row.index, row.error_code, row.base_offset) for row in one.partition_responses])
        for one in answer.responses
    ]


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", [3, 8, 12])
async def test_every_row_is_answered_in_its_place(broker: Running, acks: int, version: int) -> None:
    rows = [*((index, batch(b"%d" % index)) for index in range(MANY)), (MANY, batch(b"beyond")), (0, b"no batch")]
    found = await ask(broker.client, request(rows, acks=acks, names=("n", "m")), version)
    unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    first, last = (found[1][1][:MANY], found[1][1][MANY:])
    assert [name for name, _ in found] == ["none", "t", "n", "m"]
    assert found[0][1] == []
    assert first == [(index, 0, 0) for index in range(MANY)]
    assert last == [(MANY, unknown, -1), (0, int(ErrorCode.INVALID_RECORD), -1)]
    assert [rows for _, rows in found[2:]] == [[(0, unknown, -1)]] * 2
    assert (await broker.fetch(MANY - 1, 0)).high_watermark == 1


async def test_leaders_are_named_once_for_all_rows(broker: Running) -> None:
    broker.follower.move(topics={"t": topic("t", TOPIC_ID, *[1] * MANY)})
    answer = await broker.client.ask(
        request((index, batch(b"x")) for index in range(MANY)), timeout_ms=30_000, version=12
    )
    (_, one) = answer.responses
    assert {row.error_code for row in one.partition_responses} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert {row.current_leader.leader_id for row in one.partition_responses} == {1}


async def test_others_have_their_turn_while_many_are_appended(broker: Running) -> None:
    partitions = broker.broker.topics.by_name[b"t"].partitions
    asked = asyncio.create_task(ask(broker.client, request((index, batch(b"x")) for index in range(MANY))))
    await turns_until(lambda: partitions[0].opened is not None)
    assert sum(partition.opened is not None for partition in partitions.values()) < MANY / 10  # the first piece
    fetched = await broker.service.ask(broker.fetch_request(0, 0), timeout_ms=60_000, version=12)
    assert fetched.responses[0].partitions[0].high_watermark == 1
    assert partitions[MANY - 1].opened is None
    assert len((await asked)[1][1]) == MANY


async def test_what_comes_behind_it_is_appended_behind_it(broker: Running) -> None:
    rows = [(MANY - 1 - index, batch(b"first")) for index in range(MANY)]
    both = [ask(broker.client, request(rows)), ask(broker.client, request([(0, batch(b"second"))]))]
    first, second = await asyncio.gather(*both)
    assert first[1][1][-1] == (0, 0, 0)
    assert second[1][1] == [(0, 0, 1)]


@pytest.mark.parametrize("acks", [0, 1])
async def test_without_acks_it_is_appended_though_its_client_has_left(broker: Running, acks: int) -> None:
    partitions = broker.broker.topics.by_name[b"t"].partitions
    client = Client(broker.address, "leaves", login=SECRET)
    frame = codec.encode_request(request(((n, batch(b"x")) for n in range(MANY)), acks=acks), 12, 1, "leaves")
    asked = asyncio.create_task(client.ask_raw(frame, timeout_ms=60_000))
    await turns_until(lambda: partitions[0].opened is not None)
    client.abort()
    with pytest.raises(Disconnected):
        await asked
    if acks:
        before = -1
        while before != (before := sum(partition.opened is not None for partition in partitions.values())):
            for _ in range(100):
                await asyncio.sleep(0)
        assert before < MANY
    else:
        await turns_until(lambda: partitions[MANY - 1].opened is not None)


async def test_one_that_is_not_whole_is_appended_nowhere(broker: Running) -> None:
    frame = codec.encode_request(request((n, batch(b"x")) for n in range(MANY)), 12, 1, "torn")
    size = len(frame) - 4 - 1  # a byte short: the last topic's tags
    torn = size.to_bytes(4, "big") + frame[4:-1]
    with pytest.raises(Disconnected):
        await broker.service.ask_raw(torn, timeout_ms=60_000)
    partitions: Any = broker.broker.topics.by_name[b"t"].partitions
    assert all(partition.opened is None for partition in partitions.values())

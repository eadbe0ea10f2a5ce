"""KIP-98's sequence numbers where a leader takes up its partition while a client's batches arrive."""

from __future__ import annotations

from pathlib import Path

from support.broker import CLIENT, TOPIC_ID, Running, all_opened, batch, running, topic
from tailrace.errors import ErrorCode
from tailrace.net.client import Client


def batches(*sequences: int) -> list[bytes]:
    return [batch(b"%d" % n, producer_id=9, producer_epoch=0, base_sequence=n) for n in sequences]


async def lead(broker: Running) -> None:
    """Partition 2 of t, which node 1 led, is this broker's."""
    broker.follower.move(topics={**broker.follower.image.topics, "t": topic("t", TOPIC_ID, 0, 0, 0)})
    await all_opened(broker.broker)


async def test_what_was_sent_behind_a_refused_batch_is_refused_until_that_one_has_come(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        assert (await broker.produce(2, *batches(0))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await lead(broker)
        early = await broker.produce(2, *batches(1, 2))
        assert [row.error_code for row in early] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
        assert early[0].error_message == "the batch before this one was refused: send both again"
        in_order = await broker.produce(2, *batches(0, 1, 2))
        assert [(row.error_code, row.base_offset) for row in in_order] == [(0, 0), (0, 1), (0, 2)]
        assert (await broker.produce(2, *batches(7))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_batch_whose_predecessor_never_comes_again_gets_the_logs_own_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(2, *batches(4))
        await lead(broker)
        answers = await broker.produce(2, *batches(5, 5))
        assert [row.error_code for row in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, 0], "nobody knows its producer"


async def test_another_connection_gets_apache_kafkas_answer_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(2, *batches(1))
        await lead(broker)
        other = Client(broker.address, "another", CLIENT)
        broker.client, mine = other, broker.client
        rows = await broker.produce(2, *batches(0, 2))
        assert [row.error_code for row in rows] == [0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        broker.client = mine
        await other.close()
        rows = await broker.produce(2, *batches(2, 1, 2))
        assert [row.error_code for row in rows] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, 0]

"""A follower's fetch of very many partitions where little has happened: each is known to be caught up all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from support.broker import TOPIC_ID, Running, all_opened, batch, running
from support.pieces import whole
from support.sessions import session_of
from support.steps import steps
from support.waiting import turns_until
from tailrace.errors import ErrorCode
from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tailrace.net.identity import Identity
from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.hot.fetch import Fetch, FetchPartition
from tailrace_broker.fetch.follower import FollowerFetches

CONNECTION = SimpleNamespace(session=session_of(Identity(listener="INTERNAL")), sends_files=False, state={})
MANY = 100


def metadata(partition: PartitionImage) -> MetadataImage:
    brokers = {number: BrokerImage(number, 9 + number, UUID(int=9 + number), fenced=False) for number in range(3)}
    topic = TopicImage("t", TOPIC_ID, (partition,) * MANY)
    return MetadataImage(cluster_id="c", topics={"t": topic}, topic_names={TOPIC_ID: "t"}, brokers=brokers)


@asynccontextmanager
async def leading(path: Path) -> AsyncIterator[Running]:
    """Node 0 leads all partitions, node 1 follows."""
    async with running(path, metadata(PartitionImage((0, 1), (0, 1), 0, 1, 1)), min_insync_replicas="1") as node:
        await node.broker.publisher.on_epoch(9)
        await all_opened(node.broker)
        yield node


def wants(offset: int, *indexes: int) -> list[tuple[bytes, list[FetchPartition]]]:
    rows = [FetchPartition(index, 1, offset, -1, 0, 1 << 20) for index in indexes]
    return [(TOPIC_ID.bytes, rows)] if rows else []


class Follower:
    """Node 1 as its leader hears it, without a wire between them."""

    def __init__(self, node: Running) -> None:
        self.node = node
        self.fetches = FollowerFetches(node.listener.data_path.fetch_parts)
        self.session_id = self.epoch = 0

    def fetch(self, *topics: tuple[bytes, list[FetchPartition]], broker_epoch: int = 10, wait_ms: int = 0) -> Any:
        """The next fetch of its session: the answer, or a future of it."""
        request = Fetch(1, wait_ms, 1, 1 << 20, 0, self.session_id, self.epoch, list(topics), [], "", broker_epoch)
        self.epoch += 1
        answer = self.fetches.serve(CONNECTION, 16, 1, request)
        if not self.session_id:
            body = codec.response_body(ApiKey.FETCH, 16, whole(answer)[4:])
            self.session_id = codec.decode_response(ApiKey.FETCH, 16, body).session_id
        return answer

    def replica(self, index: int) -> Any:
        leading = self.node.broker.topics.led("t", index).leading
        assert leading is not None
        return leading.replicas[1]


def sizes(answer: Any) -> int:
    return sum(map(len, answer))


async def test_what_a_fetch_does_not_name_was_caught_up_until_then(tmp_path: Path) -> None:
    async with leading(tmp_path) as node:
        follower, now_ms = Follower(node), node.environment.clock.monotonic_ms
        follower.fetch(*wants(0, *range(MANY)))
        follower.fetch()
        before_ms = now_ms()
        nothing = sizes(follower.fetch())
        assert nothing < 40 and all(follower.replica(index).caught_up_ms >= before_ms for index in range(MANY))


async def test_what_was_appended_since_is_answered_though_the_fetch_does_not_name_it(tmp_path: Path) -> None:
    async with leading(tmp_path) as node:
        follower = Follower(node)
        follower.fetch(*wants(0, *range(MANY)))
        nothing = sizes(follower.fetch())
        node.broker.topics.led("t", 7).append([bytearray(batch(b"a"))], node.environment.clock.wall_ms())
        assert sizes(follower.fetch()) > nothing + 60
        caught_up_ms = follower.replica(7).caught_up_ms
        assert sizes(follower.fetch()) > nothing + 60, "until the follower says that it has it"
        assert follower.replica(7).caught_up_ms == caught_up_ms
        follower.fetch(*wants(1, 7))
        assert node.broker.topics.led("t", 7).high_watermark == 1
        assert sizes(follower.fetch()) == nothing and follower.replica(7).caught_up_ms > caught_up_ms


async def test_a_later_life_of_the_follower_is_heard(tmp_path: Path) -> None:
    async with leading(tmp_path) as node:
        follower = Follower(node)
        follower.fetch(*wants(0, *range(MANY)))
        follower.fetch()
        follower.fetch(broker_epoch=12)
        assert follower.replica(3).broker_epoch == 12
        refused = follower.fetch(broker_epoch=11)
        assert int(ErrorCode.STALE_BROKER_EPOCH).to_bytes(2, "big") in b"".join(map(bytes, refused))


async def test_who_left_the_isr_comes_back_with_a_fetch_that_names_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with leading(tmp_path) as node:
        follower, asked = Follower(node), list[Any]()
        monkeypatch.setattr(
            node.broker.isr, "propose", lambda partition, change: asked.append((partition.index, change.isr))
        )
        follower.fetch(*wants(0, *range(MANY)))
        follower.fetch()
        assert asked == []
        without = PartitionImage((0, 1), (0,), 0, 1, 2)
        node.follower.move(topics=metadata(without).topics)
        follower.fetch()
        assert [index for index, _ in asked] == list(range(MANY))


async def test_another_leadership_is_told_of(tmp_path: Path) -> None:
    async with leading(tmp_path) as node:
        follower = Follower(node)
        follower.fetch(*wants(0, *range(MANY)))
        nothing = sizes(follower.fetch())
        node.follower.move(topics=metadata(PartitionImage((0, 1), (0, 1), 1, 2, 2)).topics)
        assert sizes(follower.fetch()) > nothing + 10 * MANY, "NOT_LEADER_OR_FOLLOWER for each"


async def test_what_is_quiet_costs_a_glance(tmp_path: Path) -> None:
    async with leading(tmp_path) as node:
        follower = Follower(node)
        follower.fetch(*wants(0, *range(MANY)))
        closely = steps(lambda: follower.fetch())
        glance = steps(lambda: follower.fetch())
        assert glance < 150 * MANY and glance < closely / 4


async def quiet(node: Running) -> Follower:
    """All partitions are, and the next fetch may wait."""
    follower = Follower(node)
    follower.fetch(*wants(0, *range(MANY)))
    follower.fetch()
    follower.fetch()
    return follower


async def test_a_fetch_that_waits_is_answered_once_with_the_first_news_of_a_quiet_partition(tmp_path: Path) -> None:
    async with leading(tmp_path) as node:
        follower = await quiet(node)
        waiting = follower.fetch(wait_ms=60_000)
        await turns_until(lambda: not node.broker.publisher.openings)
        assert not waiting.done()
        partition = node.broker.topics.led("t", 7)
        partition.append([bytearray(batch(b"a"))], node.environment.clock.wall_ms())
        node.broker.wakeups.appended(partition)
        body = codec.response_body(ApiKey.FETCH, 16, b"".join(map(bytes, await waiting))[4:])
        (topic,) = codec.decode_response(ApiKey.FETCH, 16, body).responses
        assert [row.partition_index for row in topic.partitions] == [7]


async def test_a_fetch_that_waits_hears_of_another_leadership_of_a_quiet_partition(tmp_path: Path) -> None:
    async with leading(tmp_path) as node:
        follower = await quiet(node)
        waiting = follower.fetch(wait_ms=60_000)
        node.follower.move(topics=metadata(PartitionImage((0, 1), (0, 1), 1, 2, 2)).topics)
        assert sizes(await waiting) > 10


async def test_a_log_that_begins_later_now_is_told_of(tmp_path: Path) -> None:
    """Retention gives records up, also of a partition that was quiet."""
    async with leading(tmp_path) as node:
        partition = node.broker.topics.led("t", 7)
        partition.append([bytearray(batch(b"a"))], node.environment.clock.wall_ms())
        follower = Follower(node)
        follower.fetch(*wants(0, *range(7), *range(8, MANY)), *wants(1, 7))
        for _ in range(3):
            nothing = sizes(follower.fetch())
        partition.log.advance_log_start_offset(1)
        assert sizes(follower.fetch()) > nothing


async def test_nobody_waits_at_a_log_for_a_session_that_is_over(tmp_path: Path) -> None:
    async with leading(tmp_path) as node:
        follower = await quiet(node)
        tails = [node.broker.topics.led("t", index).tail for index in range(MANY)]
        assert all(len(tail.waiters) == 1 for tail in tails)
        follower.epoch = 0  # a new session in place of this one
        follower.fetch(*wants(0, 0))
        assert not any(tail.waiters for tail in tails)

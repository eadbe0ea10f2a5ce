"""Thousands of logs that one image gives a broker to lead are opened a few in a turn of the loop; others go between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from support.broker import OFFSETS_ID, TOPIC_ID, Running, batch, image, running
from support.waiting import turns_until
from tailrace.errors import ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.guard import Guard
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.metadata.image import MetadataImage, PartitionImage, ShardImage, TopicImage
from tailrace.wire.messages import AlterReplicaLogDirsRequest, FenceShardRequest
from tailrace_broker.partitions.opening import A_TURN_MS, Openings
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.partitions.topics import Changes

NOT_HERE = ErrorCode.NOT_LEADER_OR_FOLLOWER
NEW_ID = UUID(int=99)
SOME = 3 * A_TURN_MS
LAST = SOME - 1


class Turns:
    """The loop's next turns, which a test takes one by one, and a clock by which every log takes a millisecond."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.ms = 0.0

    def open_dir(self, disk: MemoryFilesystem | None = None) -> LogDir:
        return LogDir.open(Guard(disk or Disk(self)), "/d", node_id=0, cluster_id="c", now_ms=0)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def take(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


class Disk(MemoryFilesystem):
    """Each log that is opened on it takes a millisecond."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns

    def make_directory(self, path: str) -> None:
        super().make_directory(path)
        self._turns.ms += 1


def led(
    partitions: int = SOME, *, leader: int = 0, epoch: int = 0, topic_id: UUID = TOPIC_ID, number: int = 0
) -> MetadataImage:
    """A topic whose partitions node 1 has replicas of, too."""
    row = PartitionImage((0, 1), (0, 1), leader, epoch, number)
    topic = TopicImage("t", topic_id, (row,) * partitions)
    return replace(image(), topics={"t": topic}, topic_names={topic_id: "t"}, shards={})


def with_one(metadata: MetadataImage, index: int, row: PartitionImage) -> MetadataImage:
    topic = metadata.topics["t"]
    rows = (*topic.partitions[:index], row, *topic.partitions[index + 1 :])
    return replace(metadata, topics={"t": replace(topic, partitions=rows)})


class Standing:
    """A broker whose loop gives Openings a turn only when the test takes it."""

    def __init__(self, node: Running, turns: Turns) -> None:
        self.node, self.turns = node, turns
        self.broker = node.broker

    def partition(self, index: int) -> Partition:
        return self.broker.topics.by_name[b"t"].partitions[index]

    @property
    def opened(self) -> list[int]:
        return [index for (_, index) in sorted(self.broker.storage.dirs[0].open_logs())]

    def take_all(self) -> int:
        """How many turns there were."""
        for number in range(100):
            if not self.turns.due:
                return number
            self.turns.take()
        raise AssertionError("it does not end")


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    found = Turns()
    real = Openings.__init__
    monkeypatch.setattr(Openings, "__init__", lambda self, *_: real(self, lambda: found.ms, found.call_soon))
    return found


def give(node: Running, metadata: MetadataImage) -> None:
    """What this node may lead, it leads."""
    node.broker.topics.node.leads_shared = True
    node.follower.move(topics=metadata.topics, topic_names=metadata.topic_names)


def nothing() -> MetadataImage:
    return replace(image(), topics={}, topic_names={}, shards={})


def standing(node: Running, turns: Turns) -> Standing:
    give(node, led())
    return Standing(node, turns)


async def test_a_few_logs_are_opened_in_a_turn_and_all_in_the_end(tmp_path: Path, turns: Turns) -> None:
    async with running(tmp_path, nothing(), log_dirs=[turns.open_dir()]) as node:
        here = standing(node, turns)
        for count in range(A_TURN_MS, SOME + 1, A_TURN_MS):
            assert here.opened == list(range(count))
            assert len(here.broker.publisher.openings) == SOME - count
            assert [here.partition(index).leading is not None for index in range(SOME)] == [
                index < count for index in range(SOME)
            ]
            turns.take()
        assert here.take_all() <= 1 and not here.broker.publisher.openings
        assert [here.partition(index).log.epochs.latest for index in range(SOME)] == [0] * SOME


async def test_who_waits_neither_leads_nor_follows_and_who_is_asked_for_is_next(tmp_path: Path, turns: Turns) -> None:
    async with running(tmp_path, nothing(), log_dirs=[turns.open_dir()]) as node:
        here = standing(node, turns)
        assert (await node.produce(0, batch(b"a"))).error_code == 0
        assert (await node.produce(LAST, batch(b"a"))).error_code == NOT_HERE
        assert (await node.fetch(LAST, 0)).error_code == NOT_HERE
        turns.take()
        assert (await node.produce(LAST, batch(b"a"))).base_offset == 0
        assert here.opened == [*range(A_TURN_MS + A_TURN_MS - 1), LAST]


async def test_the_new_owner_of_a_shard_waits_for_the_turn_of_its_partition(tmp_path: Path, turns: Turns) -> None:
    """It asks as soon as a new internal topic is there, and dropped the shard over NOT_LEADER_OR_FOLLOWER."""
    name, row = "__consumer_offsets", PartitionImage((0, 1), (0,), 0, 0, 0)
    internal = TopicImage(name, OFFSETS_ID, (row,) * SOME)
    async with running(tmp_path, nothing(), log_dirs=[turns.open_dir()]) as node:
        node.follower.move(shards={(name, LAST): ShardImage(name, LAST, 0, 5)})
        give(node, replace(nothing(), topics={name: internal}, topic_names={OFFSETS_ID: name}))
        fence = FenceShardRequest(topic_id=OFFSETS_ID, partition=LAST, shard_epoch=5, coordinator_id=0)
        asked = asyncio.ensure_future(node.service.ask(fence, timeout_ms=60_000))
        partition = node.broker.topics.by_name[name.encode()].partitions[LAST]
        await turns_until(lambda: bool(partition.waiters) or asked.done())
        assert partition.leading is None
        turns.take()
        answer = await asked
        assert (answer.error_code, answer.barrier_offset) == (0, 0)
        assert not partition.waiters


async def test_a_partition_without_other_replicas_waits_for_nobody(tmp_path: Path, turns: Turns) -> None:
    metadata = with_one(led(), LAST, PartitionImage((0,), (0,), 0, 0, 0))
    async with running(tmp_path, nothing(), log_dirs=[turns.open_dir()]) as node:
        give(node, metadata)
        assert (await node.produce(LAST, batch(b"a"))).base_offset == 0


async def test_the_epoch_that_is_led_is_that_of_the_image_at_its_turn(tmp_path: Path, turns: Turns) -> None:
    async with running(tmp_path, nothing(), log_dirs=[turns.open_dir()]) as node:
        here = standing(node, turns)
        give(node, led(epoch=4, number=1))
        assert here.partition(LAST).leading is None
        here.take_all()
        last = here.partition(LAST)
        assert (last.leader_epoch, last.log.epochs.entries()) == (4, [(4, 0)])
        assert last.leading is not None and last.leading.leader_epoch == 4


async def test_a_partition_that_another_leads_meanwhile_follows_and_its_turn_changes_nothing(
    tmp_path: Path, turns: Turns
) -> None:
    async with running(tmp_path, nothing(), log_dirs=[turns.open_dir()]) as node:
        here = standing(node, turns)
        give(node, with_one(led(), LAST, PartitionImage((0, 1), (0, 1), 1, 5, 1)))
        last = here.partition(LAST)
        assert last.following and not last.recovering
        here.take_all()
        assert last.following and last.leading is None and last.opened is None


async def test_a_partition_that_is_deleted_meanwhile_is_not_opened_and_one_made_anew_is(
    tmp_path: Path, turns: Turns
) -> None:
    disk = Disk(turns)
    async with running(tmp_path, nothing(), log_dirs=[turns.open_dir(disk)]) as node:
        here = standing(node, turns)
        give(node, nothing())
        here.take_all()
        assert here.opened == [] and not here.broker.publisher.openings
        give(node, led(topic_id=NEW_ID))
        here.take_all()
        assert here.opened == list(range(SOME))
        assert here.broker.storage.dirs[0].topic_id("t", LAST) == NEW_ID


async def test_a_partition_that_is_reassigned_meanwhile_is_not_opened(tmp_path: Path, turns: Turns) -> None:
    async with running(tmp_path, nothing(), log_dirs=[turns.open_dir()]) as node:
        here = standing(node, turns)
        give(node, with_one(led(), LAST, PartitionImage((1, 2), (1, 2), 1, 1, 1)))
        here.take_all()
        assert LAST not in here.opened and LAST not in here.broker.topics.by_name[b"t"].partitions


async def test_a_log_dir_that_fails_meanwhile_has_nothing_opened_any_more(tmp_path: Path, turns: Turns) -> None:
    log_dir = turns.open_dir()
    async with running(tmp_path, nothing(), log_dirs=[log_dir]) as node:
        here = standing(node, turns)
        log_dir.fail(OSError("the disk"))
        here.broker.publisher.on_dir_failed(log_dir)
        before = len(log_dir.open_logs())
        here.take_all()
        assert len(log_dir.open_logs()) == before
        assert [here.partition(index).leading for index in range(SOME)] == [None] * SOME
        assert (await node.produce(LAST, batch(b"a"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_follower_that_is_to_lead_stops_following_before_its_turn(tmp_path: Path, turns: Turns) -> None:
    heard: list[Partition] = []
    async with running(tmp_path, nothing(), log_dirs=[turns.open_dir()]) as node:
        give(node, led(leader=1))
        here = Standing(node, turns)
        last = here.partition(LAST)
        assert last.following

        def hear(changes: Changes) -> None:
            heard.extend(changes.moved)

        node.broker.publisher.subscribe(hear)
        give(node, led(leader=0, epoch=1, number=1))
        assert last in heard and not last.following and last.leading is None
        here.take_all()
        assert last.leading is not None and heard.count(last) == 2


async def test_a_log_that_somebody_has_opened_meanwhile_is_led_at_its_turn(tmp_path: Path, turns: Turns) -> None:
    async with running(tmp_path, nothing(), log_dirs=[turns.open_dir()]) as node:
        here = standing(node, turns)
        last = here.partition(LAST)
        assert last.log is not None and last.leading is None  # as housekeeping does, where there may be work
        here.take_all()
        assert last.leading is not None and not last.recovering
        assert (await node.produce(LAST, batch(b"a"))).base_offset == 0


async def test_a_move_between_log_dirs_waits_for_its_partitions_turn(tmp_path: Path, turns: Turns) -> None:
    async with running(tmp_path, nothing(), log_dirs=[turns.open_dir()]) as node:
        here = standing(node, turns)
        topic = AlterReplicaLogDirsRequest.AlterReplicaLogDir.AlterReplicaLogDirTopic(name="t", partitions=[LAST])
        dirs = [AlterReplicaLogDirsRequest.AlterReplicaLogDir(path="/d", topics=[topic])]
        answers = []
        for _ in range(2):
            answer = await node.client.ask(AlterReplicaLogDirsRequest(dirs=dirs), timeout_ms=60_000, version=2)
            answers.append(answer.results[0].partitions[0].error_code)
            here.take_all()
        assert answers == [ErrorCode.REPLICA_NOT_AVAILABLE, 0]


async def test_a_stop_meanwhile_is_a_clean_one(tmp_path: Path, turns: Turns) -> None:
    disk = Disk(turns)
    async with running(tmp_path, nothing(), log_dirs=[turns.open_dir(disk)]) as node:
        here = standing(node, turns)
        here.take_all()
        assert (await node.produce(LAST, batch(b"a"))).error_code == 0
    async with running(tmp_path, nothing(), log_dirs=[turns.open_dir(disk)]) as node:
        again = standing(node, turns)
        assert LAST not in again.opened
    again.take_all()
    assert not again.opened  # nothing is opened in a dir that was closed
    log_dir = turns.open_dir(disk)
    assert log_dir.last_shutdown.clean
    log = log_dir.log("t", LAST)
    assert log is not None and log.log_end_offset == 1


def test_nothing_waits_while_few_are_opened(turns: Turns) -> None:
    openings = Openings(lambda: turns.ms, turns.call_soon)
    for _ in range(5):
        assert not any(openings.waits("t", index) for index in range(A_TURN_MS))
        turns.ms += A_TURN_MS - 1
        turns.take()
    assert not turns.due


def test_a_turn_opens_one_log_however_long_that_takes(turns: Turns) -> None:
    openings = Openings(lambda: turns.ms, turns.call_soon)
    opened: list[list[int]] = []

    def turn(keys: Iterator[TopicPartition]) -> None:
        opened.append([])
        for topic, index in keys:
            assert not openings.waits(topic, index)
            opened[-1].append(index)
            turns.ms += 1000

    openings.subscribe(turn)
    assert not openings.waits("t", 0)
    turns.ms += 1000
    assert openings.waits("t", 1) and openings.waits("t", 2)
    while turns.due:
        turns.take()
    assert opened == [[1], [2]]


async def test_what_a_broker_may_not_lead_yet_keeps_nobody_waiting(tmp_path: Path, turns: Turns) -> None:
    async with running(tmp_path, nothing(), log_dirs=[turns.open_dir()]) as node:
        node.broker.topics.hold_back()
        metadata = led()
        node.follower.move(topics=metadata.topics, topic_names=metadata.topic_names)
        assert not node.broker.publisher.openings and not turns.due

"""Several log dirs, and what happens when the disk of one fails (KIP-858), on disks in memory."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from support.broker import TOPIC_ID, Running, batch, running
from support.log_dirs import IDS, Disks, LifecycleTwin, metadata, watch_of
from tailrace.clock import ManualClock
from tailrace.config import Config
from tailrace.errors import ErrorCode
from tailrace.log.config import LogConfig
from tailrace.log.directory.log_dir import LogDir, LogDirRefused
from tailrace.metadata.directories import LOST, UNASSIGNED
from tailrace.metadata.image import BrokerImage, MetadataImage, TopicImage
from tailrace.wire.messages import DescribeLogDirsRequest, ListOffsetsRequest
from tailrace_broker.directories.failure import DirWatch
from tailrace_broker.directories.opening import refuse_repeated, refuse_unusable
from tailrace_broker.directories.storage import Storage

EIO = OSError(errno.EIO, "the disk is broken")


def places(node: Running) -> list[int]:
    storage = node.broker.storage
    return [storage.configured.index(log_dir) for n in range(4) if (log_dir := storage.place_of("t", n)) is not None]


def watch(node: Running, clock: ManualClock | None = None) -> tuple[DirWatch, LifecycleTwin]:
    lifecycle: Any = LifecycleTwin()
    return watch_of(node, lifecycle, clock or ManualClock()), lifecycle


async def test_new_partitions_go_to_the_dir_with_the_fewest(tmp_path: Path) -> None:
    async with running(tmp_path, metadata(), log_dirs=Disks().dirs) as node:
        assert places(node) == [0, 1, 0, 1]
        assert not node.broker.storage.holds_data("t", 0)  # nothing is made before it is used


class Accounts:
    """What the controller is to be told."""

    def __init__(self) -> None:
        self.due: dict[Any, UUID] = {}

    def assign(self, replica: Any, directory_id: UUID) -> None:
        self.due[replica] = directory_id

    def settled(self, replica: Any) -> None:
        self.due.pop(replica, None)


async def test_the_controller_hears_where_replicas_lie(tmp_path: Path) -> None:
    accounts: Any = Accounts()
    async with running(tmp_path, metadata(2), log_dirs=Disks().dirs, accounts=accounts) as node:
        assert accounts.due == {(TOPIC_ID, 0): IDS[0], (TOPIC_ID, 1): IDS[1]}
        told = metadata(2, *IDS).topics["t"]
        told = replace(told, partitions=tuple(replace(p, partition_epoch=1) for p in told.partitions))
        node.follower.move(topics={"t": told})
        assert accounts.due == {}


async def test_a_replica_that_the_controller_knows_nowhere_yet_is_lost_with_its_disk(tmp_path: Path) -> None:
    accounts: Any = Accounts()
    two = Disks()
    async with running(tmp_path, metadata(3, IDS[0], IDS[1], UNASSIGNED), log_dirs=two.dirs, accounts=accounts) as node:
        watching, _ = watch(node)
        assert accounts.due == {(TOPIC_ID, 2): IDS[0]}
        two.dirs[0].fail(EIO)
        watching.failed(two.dirs[0])
        assert accounts.due == {(TOPIC_ID, 2): LOST}
        # A later image does not have it made anew on the other disk: what was acknowledged lies on this one.
        told = metadata(3, IDS[0], IDS[1], UNASSIGNED).topics["t"]
        told = replace(told, partitions=tuple(replace(p, partition_epoch=1) for p in told.partitions))
        node.follower.move(topics={"t": told})
        assert places(node) == [0, 1, 0]


@pytest.mark.parametrize("operation", ["sync", "write"])
async def test_what_lies_on_a_failed_disk_is_a_storage_error_and_the_rest_goes_on(
    tmp_path: Path, operation: str
) -> None:
    two = Disks()
    async with running(tmp_path, metadata(configs={"flush.messages": "1"}), log_dirs=two.dirs) as node:
        _, lifecycle = watch(node)
        assert [(await node.produce(n, batch(b"a"))).error_code for n in range(4)] == [0] * 4
        two.disks[0].fail_next(operation, EIO)
        assert (await node.produce(0, batch(b"lost"), timeout_ms=20_000)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        two.disks[0].heal()
        # also the other partition of that disk, whose writes the kernel would take
        codes = [(await node.produce(n, batch(b"b"))).error_code for n in range(4)]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, 0, ErrorCode.KAFKA_STORAGE_ERROR, 0]
        assert [(await node.fetch(n, 0)).error_code for n in range(4)] == codes
        one = ListOffsetsRequest.ListOffsetsTopic
        rows = [one.ListOffsetsPartition(partition_index=n, current_leader_epoch=-1, timestamp=-1) for n in range(4)]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[one(name="t", partitions=rows)])
        found = (await node.client.ask(request, timeout_ms=60_000)).topics[0].partitions
        assert [row.error_code for row in found] == codes
        assert lifecycle.reported == [IDS[0]]
        broken, valid = (await node.client.ask(DescribeLogDirsRequest(topics=None), timeout_ms=60_000)).results
        assert (broken.error_code, broken.topics, broken.total_bytes) == (ErrorCode.KAFKA_STORAGE_ERROR, [], -1)
        assert [p.partition_index for p in valid.topics[0].partitions] == [1, 3]
        # an election elsewhere does not bring it back, a new start does
        moved = metadata().topics["t"]
        moved = replace(
            moved, partitions=tuple(replace(p, leader_epoch=9, partition_epoch=9) for p in moved.partitions)
        )
        node.follower.move(topics={"t": moved})
        assert [(await node.fetch(n, 0)).error_code for n in range(4)] == codes
    two.disks[0].crash(Random(1))  # what the kernel still had in memory never counted
    again = Storage(two.open(), Config.load("broker", overrides={"node.id": "0"}), lambda: 0)
    assert again.closed_epoch == again.previous_epoch == -1  # one of them was not closed cleanly
    assert again.open("t", TOPIC_ID, 0).log_end_offset == 1


async def test_who_waits_for_data_or_copies_of_a_failed_disk_is_told(tmp_path: Path) -> None:
    two = Disks()
    asked = metadata(2)
    shared = replace(asked.topics["t"].partitions[0], replicas=(0, 1), isr=(0, 1), directories=(UNASSIGNED,) * 2)
    topic = replace(asked.topics["t"], partitions=(shared, asked.topics["t"].partitions[1]))
    async with running(tmp_path, replace(asked, topics={"t": topic}), log_dirs=two.dirs) as node:
        watch(node)
        await node.release()
        copied = asyncio.create_task(node.produce(0, batch(b"a"), acks=-1, timeout_ms=60_000))
        while not node.broker.topics.by_name[b"t"].partitions[0].commits:  # noqa: ASYNC110
            await asyncio.sleep(0)
        two.dirs[0].fail(EIO)
        assert (await copied).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        waiting = asyncio.create_task(node.fetch(1, 0, max_wait_ms=60_000))
        await node.service.ask(DescribeLogDirsRequest(topics=[]), timeout_ms=60_000)
        two.dirs[1].fail(EIO)
        assert (await waiting).error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_broker_without_any_dir_left_stops(tmp_path: Path) -> None:
    two = Disks()
    async with running(tmp_path, metadata(), log_dirs=two.dirs) as node:
        watching, lifecycle = watch(node)
        two.dirs[0].fail(EIO)
        two.dirs[1].fail(EIO)
        with pytest.raises(LogDirRefused, match=r"no log directory is left: /d. failed with .*broken"):
            await watching.run()
        assert len(lifecycle.reported) <= 1


@asynccontextmanager
async def watched_failure(path: Path, clock: ManualClock) -> AsyncIterator[tuple[asyncio.Task[None], LifecycleTwin]]:
    """The watch of a broker that has lost one of two disks, and the lifecycle that it tells."""
    two = Disks()
    async with running(path, metadata(), log_dirs=two.dirs) as node:
        watching, lifecycle = watch(node, clock)
        two.dirs[0].fail(EIO)
        task = asyncio.create_task(watching.run())
        await asyncio.sleep(0)
        yield task, lifecycle


async def test_a_broker_that_cannot_tell_the_controller_in_time_stops(tmp_path: Path) -> None:
    clock = ManualClock()
    async with watched_failure(tmp_path, clock) as (task, lifecycle):
        clock.advance(29_999)
        await asyncio.sleep(0)
        assert not task.done()
        clock.advance(2)
        with pytest.raises(LogDirRefused, match="could not be told"):
            await task
        assert lifecycle.reported == [IDS[0]]


async def test_a_broker_that_told_the_controller_goes_on(tmp_path: Path) -> None:
    clock = ManualClock()
    async with watched_failure(tmp_path, clock) as (task, lifecycle):
        lifecycle.reported_dirs = frozenset({IDS[0]})
        clock.advance(60_000)
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel()


async def test_a_start_with_one_unreadable_dir_serves_what_lies_on_the_others(tmp_path: Path) -> None:
    two = Disks()
    async with running(tmp_path, metadata(), log_dirs=two.dirs) as node:
        for n in range(4):
            await node.produce(n, batch(b"a"))
    dirs = [LogDir.unreadable("/d0", EIO), two.open()[1]]
    told = metadata(5, IDS[0], IDS[1], IDS[0], IDS[1], UNASSIGNED)
    async with running(tmp_path, told, log_dirs=dirs) as node:
        codes = [(await node.fetch(n, 0)).error_code for n in range(5)]
        lost = ErrorCode.KAFKA_STORAGE_ERROR
        assert codes == [lost, 0, lost, 0, 0]  # the last one is new, so that it may be made elsewhere
        assert node.broker.storage.closed_epoch == -1
        found = (await node.client.ask(DescribeLogDirsRequest(topics=None), timeout_ms=60_000)).results
        assert [(row.log_dir, row.error_code) for row in found] == [("/d0", lost), ("/d1", 0)]


def led_by(image: MetadataImage, leader: int, epoch: int = 1) -> dict[str, TopicImage]:
    rows = image.topics["t"].partitions
    moved = tuple(replace(p, replicas=(0, 1), leader=leader, leader_epoch=p.leader_epoch + epoch) for p in rows)
    return {"t": replace(image.topics["t"], partitions=moved)}


async def test_the_only_replicas_of_a_dir_taken_out_of_log_dirs_are_waited_for(tmp_path: Path) -> None:
    two, told = Disks(), metadata(2, *IDS)
    async with running(tmp_path, told, log_dirs=two.dirs) as node:
        assert [(await node.produce(n, batch(b"a"))).error_code for n in range(2)] == [0, 0]
    accounts: Any = Accounts()
    async with running(tmp_path, told, log_dirs=two.open()[:1], accounts=accounts) as node:
        lost = ErrorCode.KAFKA_STORAGE_ERROR
        assert [(await node.produce(n, batch(b"b"))).error_code for n in range(2)] == [0, lost]
        assert places(node) == [0] and accounts.due == {}  # so the controller elects nobody for it
    async with running(tmp_path, told, log_dirs=two.open()) as node:
        assert [(await node.fetch(n, 0)).high_watermark for n in range(2)] == [2, 1]


async def test_a_replica_of_a_dir_taken_out_of_log_dirs_is_copied_once_another_leads(tmp_path: Path) -> None:
    told, accounts = metadata(2, *IDS), Accounts()
    async with running(tmp_path, told, log_dirs=Disks().dirs[:1], accounts=accounts) as node:
        node.follower.move(topics=led_by(told, -1))
        assert places(node) == [0] and accounts.due == {}
        node.follower.move(topics=led_by(told, 1, 2))
        assert places(node) == [0, 0] and accounts.due == {(TOPIC_ID, 1): IDS[0]}
        followed = node.broker.topics.by_name[b"t"].partitions[1]
        assert followed.following and not followed.offline


async def test_a_topic_that_may_lose_records_begins_anew_in_the_dirs_that_are_left(tmp_path: Path) -> None:
    told, accounts = metadata(2, *IDS), Accounts()
    async with running(tmp_path, told, log_dirs=Disks().dirs[:1], accounts=accounts) as node:
        assert places(node) == [0] and accounts.due == {}
        node.follower.move(configs={(2, "t"): {"unclean.leader.election.enable": "true"}})
        assert places(node) == [0, 0] and accounts.due == {(TOPIC_ID, 1): IDS[0]}


async def test_a_topic_deleted_with_its_disk_may_be_made_anew_on_the_other(tmp_path: Path) -> None:
    two = Disks()
    async with running(tmp_path, metadata(), log_dirs=two.dirs) as node:
        watch(node)
        await node.produce(0, batch(b"a"))
        two.dirs[0].fail(EIO)
        node.follower.move(topics={}, topic_names={})
        new = replace(metadata(1).topics["t"], topic_id=UUID(int=99))
        node.follower.move(topics={"t": new}, topic_names={new.topic_id: "t"})
        assert (await node.produce(0, batch(b"b"))).error_code == 0
        assert node.broker.storage.place_of("t", 0) is two.dirs[1]


async def test_the_older_topic_on_a_disk_that_comes_back_does_not_hide_the_newer(tmp_path: Path) -> None:
    two = Disks()
    async with running(tmp_path, metadata(), log_dirs=two.dirs) as node:
        watch(node)
        assert [(await node.produce(n, batch(b"old"))).error_code for n in range(2)] == [0, 0]
        two.dirs[1].fail(EIO)
        node.follower.move(topics={}, topic_names={})
        new = replace(metadata(2).topics["t"], topic_id=UUID(int=99))
        node.follower.move(topics={"t": new}, topic_names={new.topic_id: "t"})
        assert [(await node.produce(n, batch(b"new", b"er"))).error_code for n in range(2)] == [0, 0]
        assert places(node) == [0, 0]
    again = replace(metadata(), topics={"t": new}, topic_names={new.topic_id: "t"})
    async with running(tmp_path, again, log_dirs=two.open()) as node:
        assert places(node) == [0, 0]
        assert [(await node.fetch(n, 0)).high_watermark for n in range(2)] == [2, 2]
        assert not node.broker.storage.configured[1].holds("t", 1)


async def test_what_others_were_given_while_a_disk_was_away_is_put_aside_once_the_controller_knows_the_broker(
    tmp_path: Path,
) -> None:
    two, told = Disks(), metadata(4)
    async with running(tmp_path, told, log_dirs=two.dirs) as node:
        assert [(await node.produce(n, batch(b"a"))).error_code for n in range(4)] == [0] * 4
        watch(node)
        two.dirs[1].fail(EIO)
        rows = told.topics["t"].partitions
        others = tuple(replace(p, replicas=(1,), isr=(1,), leader=1) for p in rows[:2])
        topics = {"t": replace(told.topics["t"], partitions=(*others, *rows[2:]))}
        node.follower.move(topics=topics)
    async with running(tmp_path, replace(told, topics=topics), log_dirs=two.open()) as node:
        online = node.broker.storage.configured
        assert [log_dir.partitions() for log_dir in online] == [[("t", 2)], [("t", 1), ("t", 3)]]
        await node.broker.publisher.on_epoch(9)
        node.follower.move(brokers={0: BrokerImage(0, 8, UUID(int=8), fenced=False)})  # an earlier life
        assert online[1].holds("t", 1)
        node.follower.move(brokers={0: BrokerImage(0, 9, UUID(int=9), fenced=False)})
        assert [log_dir.partitions() for log_dir in online] == [[("t", 2)], [("t", 3)]]
        assert [name for name in two.disks[1].list("/d1") if name.startswith("t-1.") and name.endswith("-stray")]
        assert [(await node.fetch(n, 0)).high_watermark for n in (2, 3)] == [1, 1]
        node.follower.move(topics=told.topics)
        assert (await node.fetch(1, 0)).high_watermark == 0  # not what it held before


def test_a_partition_of_one_id_in_two_dirs_is_refused_in_a_sentence() -> None:
    two = Disks()
    config = Config.load("broker", overrides={"node.id": "0"})
    for log_dir in two.dirs:
        log_dir.create("t", 0, TOPIC_ID, LogConfig())
        log_dir.close()
    with pytest.raises(LogDirRefused, match=r"t-0 is in both /d0 and /d1"):
        Storage(two.open(), config, lambda: 0)


async def test_of_two_replicas_of_one_id_that_of_the_dir_in_the_image_is_right(tmp_path: Path) -> None:
    """A dir was taken out of log.dirs, what lay there was copied from its leader, and the dir came back."""
    two, told = Disks(), metadata(2, *IDS)
    async with running(tmp_path, told, log_dirs=two.dirs) as node:
        assert [(await node.produce(n, batch(b"old"))).error_code for n in range(2)] == [0, 0]
    async with running(tmp_path, replace(told, topics=led_by(told, 1)), log_dirs=two.open()[:1]) as node:
        assert places(node) == [0, 0]
        followed = node.broker.topics.by_name[b"t"].partitions[1]
        assert followed.log.log_end_offset == 0
    here = metadata(2, IDS[0], IDS[0])
    async with running(tmp_path, here, log_dirs=two.open()) as node:
        assert places(node) == [0, 0]
        assert [log_dir.partitions() for log_dir in node.broker.storage.configured] == [[("t", 0), ("t", 1)], []]
        (stray,) = node.broker.storage.configured[1].findings.strays
        assert stray.key == ("t", 1) and stray.path.endswith("-stray")


async def test_a_disk_that_fails_under_a_deletion_does_not_keep_the_rest_of_an_image_away(tmp_path: Path) -> None:
    two = Disks()
    async with running(tmp_path, metadata(), log_dirs=two.dirs) as node:
        _, lifecycle = watch(node)
        assert [(await node.produce(n, batch(b"a"))).error_code for n in range(4)] == [0] * 4
        two.disks[0].fail_next("rename", EIO)
        node.follower.move(topics={}, topic_names={})
        assert places(node) == []
        await node.client.ask(DescribeLogDirsRequest(topics=[]), timeout_ms=60_000)
        assert lifecycle.reported == [IDS[0]]
        assert two.dirs[1].partitions() == []


def test_dirs_that_cannot_serve_are_refused_in_a_sentence() -> None:
    with pytest.raises(LogDirRefused, match=r"no log directory can be used: .*broken"):
        refuse_unusable([LogDir.unreadable("/d0", EIO)])
    copied = Disks().dirs
    copied[1].directory_id = IDS[0]
    with pytest.raises(LogDirRefused, match=r"the log directories /d0 and /d1 have the same directory\.id"):
        refuse_unusable(copied)


@pytest.mark.parametrize("second", ["a/", "a/../a", "link", "new/../a"])
def test_a_log_dir_that_is_named_twice_is_refused_as_what_it_is(tmp_path: Path, second: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    first = f"{tmp_path}/a"
    refuse_repeated([first, f"{tmp_path}/b"])
    with pytest.raises(LogDirRefused, match=f"names one directory twice: {first} and {tmp_path}/{second}"):
        refuse_repeated([first, f"{tmp_path}/b", f"{tmp_path}/{second}"])

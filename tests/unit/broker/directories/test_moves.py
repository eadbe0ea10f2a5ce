"""Replicas that move between the log dirs of one broker (AlterReplicaLogDirs, KIP-113), on disks in memory."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from support.broker import TOPIC_ID, Running, batch, running
from support.log_dirs import Disks, LifecycleTwin, metadata, watch_of
from support.replicated import values_of
from support.waiting import HUNG_S
from tailrace.clock import ManualClock
from tailrace.config import Config, ConfigError
from tailrace.errors import ErrorCode
from tailrace.log.directory.disk_pressure import Level, Pressure
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.net.background import in_background
from tailrace.wire.messages import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from tailrace_broker.app import cleaner_of
from tailrace_broker.directories.moves import at_a_time
from tailrace_broker.directories.storage import Storage

THREADS = "num.replica.alter.log.dirs.threads"
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@asynccontextmanager
async def moving(
    path: Path, two: Disks, image: Any = None, *, moves: bool = True, **settings: Any
) -> AsyncIterator[Running]:
    async with running(path, image or metadata(), log_dirs=two.dirs, **settings) as node:
        twin: Any = LifecycleTwin()
        watch_of(node, twin, ManualClock())
        if not moves:
            yield node
            return
        async with in_background(node.broker.dir_moves.run()):
            yield node


async def ask(node: Running, path: str, *partitions: int, topic: str = "t") -> list[int]:
    one = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    wanted = one(path=path, topics=[one.AlterReplicaLogDirTopic(name=topic, partitions=list(partitions))])
    answer = await node.client.ask(AlterReplicaLogDirsRequest(dirs=[wanted]), timeout_ms=60_000)
    return [row.error_code for row in answer.results[0].partitions]


async def done(node: Running) -> None:
    while node.broker.dir_moves.moves:  # noqa: ASYNC110  threads and turns of the loop lead there
        await asyncio.sleep(0)


async def moved(node: Running) -> None:
    """Asked to go to the other disk, and it went or did not."""
    await ask(node, "/d1", 0)
    await done(node)


async def values(node: Running, partition: int = 0) -> list[bytes]:
    found: list[bytes] = []
    offset = 0
    while True:
        answer = await node.fetch(partition, offset)
        assert answer.error_code == 0
        if not answer.records:
            return found
        for last, value in values_of(bytes(answer.records)):
            found.append(value)
            offset = last + 1


async def test_a_replica_moves_with_its_records_and_serves_all_the_while(tmp_path: Path) -> None:
    two = Disks()
    async with moving(tmp_path, two) as node:
        for n in range(50):
            await node.produce(0, batch(b"%d" % n))
        assert await ask(node, "/d1", 0) == [0]
        for n in range(50, 100):
            assert (await node.produce(0, batch(b"%d" % n))).error_code == 0
        await done(node)
        assert node.broker.storage.place_of("t", 0) is two.dirs[1]
        assert (await node.produce(0, batch(b"100"))).base_offset == 100
        assert await values(node) == [b"%d" % n for n in range(101)]
        assert not [name for name in two.disks[1].list("/d1") if name.endswith("-future")]
        assert "t-0" not in two.disks[0].list("/d0")
    two.dirs = two.open()
    async with moving(tmp_path, two) as node:
        assert node.broker.storage.place_of("t", 0) is two.dirs[1]
        assert len(await values(node)) == 101


async def test_the_event_loop_does_not_wait_for_the_disk_to_find_what_is_copied(tmp_path: Path) -> None:
    two = Disks()
    async with moving(tmp_path, two) as node:
        for n in range(50):
            await node.produce(0, batch(b"%d" % n))
    two.dirs = two.open()
    async with moving(tmp_path, two) as node:
        assert node.broker.topics.by_name[b"t"].partitions[0].log.log_end_offset == 50
        two.disks[0].drop_caches()
        readers = set[threading.Thread]()
        two.disks[0].on_disk_read = lambda: readers.add(threading.current_thread())
        await moved(node)
        assert node.broker.storage.place_of("t", 0) is two.dirs[1]
        assert readers
        assert threading.main_thread() not in readers


async def test_segments_with_lost_indexes_are_scanned_by_a_thread(tmp_path: Path) -> None:
    two, small = Disks(), metadata(configs={"segment.bytes": "1048576"})
    async with moving(tmp_path, two, small) as node:
        for _ in range(8):
            await node.produce(0, batch(bytes(400_000)))
    two.dirs = two.open()
    for path in [path for path in two.disks[0].files() if path.endswith("index")]:
        two.disks[0].remove(path)
    async with moving(tmp_path, two, small) as node:
        assert len(node.broker.topics.by_name[b"t"].partitions[0].log.segments) == 4
        two.disks[0].drop_caches()
        readers = set[threading.Thread]()
        two.disks[0].on_disk_read = lambda: readers.add(threading.current_thread())
        await moved(node)
        assert node.broker.storage.place_of("t", 0) is two.dirs[1]
        assert readers
        assert threading.main_thread() not in readers
        assert node.broker.topics.by_name[b"t"].partitions[0].log.log_end_offset == 8


async def test_a_replica_whose_log_starts_within_a_batch_moves(tmp_path: Path) -> None:
    two = Disks()
    async with moving(tmp_path, two) as node:
        await node.produce(0, batch(b"a", b"b", b"c"))
        log = node.broker.topics.by_name[b"t"].partitions[0].log
        log.advance_log_start_offset(1)  # DeleteRecords, which may end anywhere
        await moved(node)
        assert node.broker.storage.place_of("t", 0) is two.dirs[1]
        log = node.broker.topics.by_name[b"t"].partitions[0].log
        assert (log.log_start_offset, log.log_end_offset) == (1, 3)
        answer = await node.fetch(0, 1)
        assert [value for last, value in values_of(bytes(answer.records))] == [b"a", b"b", b"c"]


async def test_a_replica_nothing_was_written_to_is_put_there_at_once(tmp_path: Path) -> None:
    two = Disks()
    async with moving(tmp_path, two) as node:
        assert await ask(node, "/d1", 0) == [0]
        assert node.broker.storage.place_of("t", 0) is two.dirs[1]
        assert (await node.produce(0, batch(b"a"))).error_code == 0
        assert "t-0" in two.disks[1].list("/d1")


async def test_what_cannot_be_moved_has_kafkas_error(tmp_path: Path) -> None:
    two = Disks()
    async with moving(tmp_path, two) as node:
        assert await ask(node, "/elsewhere", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert await ask(node, "/d1/", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert await ask(node, "/d1", 7) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await ask(node, "/d1", 0, topic="x" * 220) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        two.dirs[1].fail(OSError(errno.EIO, "broken"))
        await node.service.ask(DescribeLogDirsRequest(topics=[]), timeout_ms=60_000)
        assert await ask(node, "/d1", 0) == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert await ask(node, "/d0", 1) == [ErrorCode.KAFKA_STORAGE_ERROR]


async def test_a_move_on_its_way_is_listed_throttled_and_survives_a_restart(tmp_path: Path) -> None:
    two = Disks()
    slow = replace(metadata(), configs={(4, ""): {RATE: "1"}})
    async with moving(tmp_path, two, slow) as node:
        for n in range(20):
            await node.produce(0, batch(b"%d" % n + b"x" * 100_000))
        assert await ask(node, "/d1", 0) == [0]
        (move,) = node.broker.dir_moves.moves.values()
        while not move.size_bytes:  # noqa: ASYNC110
            await asyncio.sleep(0)
        _, second = (await node.client.ask(DescribeLogDirsRequest(topics=None), timeout_ms=60_000)).results
        coming = [row for topic in second.topics for row in topic.partitions if row.is_future_key]
        assert [(row.partition_index, row.offset_lag > 0, row.partition_size > 0) for row in coming] == [
            (0, True, True)
        ]
        copied = move.size_bytes
    two.dirs = two.open()
    async with moving(tmp_path, two) as node:
        assert copied > 0
        while two.dirs[1].futures:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert node.broker.storage.place_of("t", 0) is two.dirs[1]
        log = node.broker.topics.by_name[b"t"].partitions[0].log
        found = [last for last, _ in values_of(bytes(log.read(0, 1 << 22).read()))]
        assert (log.directory, found) == ("/d1/t-0", list(range(20)))


async def test_a_move_goes_on_though_the_image_that_a_start_begins_with_lacks_the_topic(tmp_path: Path) -> None:
    two = Disks()
    async with moving(tmp_path, two) as node:
        await node.produce(0, batch(b"a"))
        two.dirs[1].futures.open("t", 0, TOPIC_ID, node.broker.storage.topic_config("t"), 0)
    two.dirs = two.open()
    whole = metadata()
    async with moving(tmp_path, two, replace(whole, topics={}, topic_names={})) as node:
        await asyncio.sleep(0)
        assert list(two.dirs[1].futures) == [("t", 0)]
        node.follower.move(topics=whole.topics, topic_names=whole.topic_names)
        await done(node)
        assert node.broker.storage.place_of("t", 0) is two.dirs[1]
        assert await values(node) == [b"a"]


async def test_a_disk_that_fails_under_a_copy_costs_the_copy_alone(tmp_path: Path) -> None:
    two = Disks()
    async with moving(tmp_path, two) as node:
        await node.produce(0, batch(b"a"))
        two.disks[1].fail_next("write", OSError(errno.EIO, "broken"))
        await moved(node)
        assert (await node.fetch(0, 0)).error_code == 0
        assert node.broker.storage.place_of("t", 0) is two.dirs[0]


async def test_moves_to_a_disk_that_fails_are_given_up_though_they_wait(tmp_path: Path) -> None:
    """One for the throttle, the others for their turn: nobody is to find out only then, with the cleaner waiting."""
    two, slow = Disks(), replace(metadata(6), configs={(4, ""): {RATE: "1"}})
    async with moving(tmp_path, two, slow) as node:
        for partition in (0, 2, 4):
            await node.produce(partition, batch(b"x" * 700_000))
            await node.produce(partition, batch(b"y" * 700_000))
        assert await ask(node, "/d1", 0, 2, 4) == [0, 0, 0]
        moves = node.broker.dir_moves.moves
        while not any(move.size_bytes for move in moves.values()):  # noqa: ASYNC110  a thread leads there
            await asyncio.sleep(0)
        assert len(moves) == 3
        two.dirs[1].fail(OSError(errno.EIO, "broken"))
        await node.service.ask(DescribeLogDirsRequest(topics=[]), timeout_ms=60_000)
        assert moves == {}
        for partition in (0, 2, 4):
            assert (await node.produce(partition, batch(b"z"))).base_offset == 2


async def test_a_copy_that_took_over_is_right_though_the_old_disk_could_not_forget(tmp_path: Path) -> None:
    two = Disks()
    async with moving(tmp_path, two) as node:
        await node.produce(0, batch(b"a"))
        two.disks[0].fail_next("rename", OSError(errno.EIO, "broken"))
        await moved(node)
        assert (await node.produce(0, batch(b"b"))).error_code == 0
    two.dirs = two.open()
    async with moving(tmp_path, two) as node:
        assert node.broker.storage.place_of("t", 0) is two.dirs[1]
        assert await values(node) == [b"a", b"b"]
        assert "t-0" not in two.disks[0].list("/d0")


async def test_a_deleted_topic_takes_its_copy_along(tmp_path: Path) -> None:
    two = Disks()
    slow = replace(metadata(), configs={(4, ""): {RATE: "1"}})
    async with moving(tmp_path, two, slow, moves=False) as node:
        await node.produce(0, batch(b"a"))
        await ask(node, "/d1", 0)
        node.follower.move(topics={}, topic_names={})
        assert node.broker.dir_moves.moves == {}


async def test_a_copy_that_could_not_take_over_does_not_hide_what_was_acknowledged_since(tmp_path: Path) -> None:
    two = Disks()
    async with moving(tmp_path, two) as node:
        await node.produce(0, batch(b"a"))
        swap, disk = node.broker.storage.swap, two.disks[1]

        def swap_on_a_breaking_disk(*rest: Any) -> Any:
            disk.fail_next("rename", OSError(errno.EIO, "broken"))
            return swap(*rest)

        node.broker.storage.swap = swap_on_a_breaking_disk  # type: ignore[assignment, method-assign]
        await moved(node)
        assert node.broker.storage.place_of("t", 0) is two.dirs[0]
        assert (await node.produce(0, batch(b"b"))).error_code == 0
    two.dirs = two.open()
    async with moving(tmp_path, two) as node:
        assert await values(node) == [b"a", b"b"]


class HeldDisk(MemoryFilesystem):
    """From `hold` on its syncs wait in their threads; on the loop none may."""

    def __init__(self) -> None:
        super().__init__()
        self.free, self.waiting = threading.Event(), threading.Event()
        self.free.set()

    def hold(self) -> None:
        self.free.clear()

    def maybe_fail(self, operation: str) -> None:
        if operation == "sync" and not self.free.is_set():
            assert threading.current_thread() is not threading.main_thread(), "the loop waits for the disk"
            self.waiting.set()
            self.free.wait()
        super().maybe_fail(operation)


@asynccontextmanager
async def changed_but_not_synced(path: Path, two: Disks, held: HeldDisk) -> AsyncIterator[Running]:
    """A record each in t-0, which has gone to the second disk, and in t-1 there; the first's last sync waits."""
    two.disks[1], two.dirs = held, []
    two.dirs = two.open()
    async with moving(path, two) as node:
        assert (await node.produce(0, batch(b"a"))).error_code == 0
        swap = node.broker.storage.swap

        def swap_and_hold(*rest: Any) -> Any:
            held.hold()
            node.broker.storage.swap = swap  # type: ignore[method-assign]
            return swap(*rest)

        node.broker.storage.swap = swap_and_hold  # type: ignore[assignment, method-assign]
        await ask(node, "/d1", 0)
        try:
            await asyncio.to_thread(held.waiting.wait)
            yield node
        finally:
            held.free.set()


async def test_the_last_sync_of_a_move_holds_nobody_up_and_the_old_files_stay_until_it_is_over(tmp_path: Path) -> None:
    two, held = Disks(), HeldDisk()
    async with changed_but_not_synced(tmp_path, two, held) as node:
        assert node.broker.storage.place_of("t", 0) is two.dirs[1]
        assert [(await node.produce(n, batch(b"b"))).error_code for n in (0, 1)] == [0, 0]
        assert await values(node) == [b"a", b"b"]
        assert "t-0" in two.disks[0].list("/d0")
        _, second = (await node.client.ask(DescribeLogDirsRequest(topics=None), timeout_ms=60_000)).results
        rows = [row for topic in second.topics for row in topic.partitions]
        assert [(row.partition_index, row.is_future_key) for row in rows if row.partition_index == 0] == [(0, False)]
        held.free.set()
        await done(node)
        assert "t-0" not in two.disks[0].list("/d0")


async def test_a_kill_before_the_last_sync_leaves_the_log_that_was_written_to(tmp_path: Path) -> None:
    two, held = Disks(), HeldDisk()
    async with changed_but_not_synced(tmp_path, two, held) as node:
        assert (await node.produce(0, batch(b"b"))).error_code == 0
        for disk in two.disks:
            disk.kill()
        again = Storage(two.open(), Config.load("broker", overrides={"node.id": "0"}), lambda: 0)
        log = again.open("t", TOPIC_ID, 0)
        assert (log.directory, log.log_end_offset) == ("/d1/t-0", 2)
        assert not [name for name in two.disks[0].list("/d0") if name == "t-0"]


@pytest.mark.parametrize("image_comes", ["before the loop hears of the copy", "after that"])
async def test_a_move_that_is_given_up_while_its_copy_is_opened_does_not_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image_comes: str
) -> None:
    two, entered, free, left = Disks(), threading.Event(), threading.Event(), threading.Event()
    open_future = two.dirs[1].futures.open

    def slow(*args: Any, **options: Any) -> Any:
        entered.set()
        free.wait()
        try:
            return open_future(*args, **options)
        finally:
            left.set()

    monkeypatch.setattr(two.dirs[1].futures, "open", slow)
    async with moving(tmp_path, two) as node:
        assert (await node.produce(0, batch(b"a"))).error_code == 0
        assert await ask(node, "/d1", 0) == [0]
        await asyncio.to_thread(entered.wait)
        assert await ask(node, "/d0", 0) == [0]
        free.set()
        if image_comes == "before the loop hears of the copy":
            left.wait()  # the loop stands still meanwhile
            assert two.dirs[1].futures
            node.broker.dir_moves.resume()
            assert not node.broker.dir_moves.moves
        async with asyncio.timeout(HUNG_S):
            while not left.is_set() or two.dirs[1].futures:  # noqa: ASYNC110  turns of the loop lead there
                await asyncio.sleep(0)
        node.broker.dir_moves.resume()
        assert not node.broker.dir_moves.moves
        assert [name for name in two.disks[1].list("/d1") if name.endswith("-future")] == []
        assert await values(node) == [b"a"]


async def test_a_replica_that_is_called_back_before_the_last_sync_goes_back_after_it(tmp_path: Path) -> None:
    two, held = Disks(), HeldDisk()
    async with changed_but_not_synced(tmp_path, two, held) as node:
        assert await ask(node, "/d0", 0) == [0]
        assert (await node.produce(0, batch(b"b"))).error_code == 0
        held.free.set()
        await done(node)
        assert node.broker.storage.place_of("t", 0) is two.dirs[0]
        assert await values(node) == [b"a", b"b"]
        assert "t-0" not in two.disks[1].list("/d1")


async def test_a_topic_that_is_deleted_before_the_last_sync_leaves_nothing(tmp_path: Path) -> None:
    two, held = Disks(), HeldDisk()
    async with changed_but_not_synced(tmp_path, two, held) as node:
        node.follower.move(topics={}, topic_names={})
        assert node.broker.dir_moves.moves == {}
        assert not [
            name
            for disk, path in zip(two.disks, ("/d0", "/d1"), strict=True)
            for name in disk.list(path)
            if name == "t-0"
        ]


async def test_a_disk_that_fails_at_the_last_sync_leaves_the_old_files_for_the_next_start(tmp_path: Path) -> None:
    two, held = Disks(), HeldDisk()
    async with changed_but_not_synced(tmp_path, two, held) as node:
        held.fail_next("sync", OSError(errno.EIO, "broken"))
        held.free.set()
        await done(node)
        assert (await node.produce(0, batch(b"b"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "t-0" in two.disks[0].list("/d0")


async def test_a_sync_that_fails_after_the_copy_took_over_leaves_it_the_partitions_log(tmp_path: Path) -> None:
    async with moving(tmp_path, Disks()) as node:
        assert (await node.produce(0, batch(b"a"))).error_code == 0

        async def fails(partition: object) -> bool:
            raise OSError(errno.EMFILE, "too many open files")

        node.broker.wakeups.flusher.everything = fails  # type: ignore[method-assign]
        await ask(node, "/d1", 0)
        await done(node)
        log = node.broker.topics.by_name[b"t"].partitions[0].log
        assert log.directory == "/d1/t-0"
        assert not log.unsynced.gone  # else no flush would write anything any more


async def test_the_old_files_go_without_the_loop_waiting_for_their_disk(tmp_path: Path) -> None:
    """Also of a topic that is deleted: their checkpoints are written in a thread, once for all that went."""
    two, held = Disks(), HeldDisk()
    two.disks[0], two.dirs = held, []
    two.dirs = two.open()
    async with moving(tmp_path, two) as node:
        for partition in (0, 2):
            assert (await node.produce(partition, batch(b"a"))).error_code == 0
        for log in two.dirs[0].open_logs().values():
            log.flush()
        two.dirs[0].checkpoint()
        held.hold()
        await ask(node, "/d1", 0)
        try:
            await asyncio.to_thread(held.waiting.wait)
            assert two.dirs[0].unsettled and "t-0" not in held.list("/d0")
            assert (await node.produce(0, batch(b"b"))).error_code == 0
            node.follower.move(topics={}, topic_names={})
            assert two.dirs[0].partitions() == []
        finally:
            held.free.set()
        await done(node)
    two.dirs = two.open()
    assert not any(log_dir.partitions() or log_dir.unsettled for log_dir in two.dirs)


def test_as_many_moves_copy_at_the_same_time_as_kafka_would() -> None:
    unset = Config.load("broker", overrides={"node.id": "0"})
    one = Config.load("broker", overrides={"node.id": "0", THREADS: "1"})
    assert (at_a_time(unset, 3), at_a_time(one, 3)) == (3, 1)
    with pytest.raises(ConfigError, match=r"\[1,...\]"):
        Config.load("broker", overrides={"node.id": "0", THREADS: "0"})


@pytest.mark.parametrize(("threads", "copying"), [("1", 1), (None, 2)])
async def test_no_more_moves_copy_than_there_are_threads(tmp_path: Path, threads: str | None, copying: int) -> None:
    two, slow = Disks(), replace(metadata(), configs={(4, ""): {RATE: "1"}})
    settings: dict[str, Any] = {} if threads is None else {THREADS: threads}
    async with moving(tmp_path, two, slow, **settings) as node:
        for partition in (0, 1, 2):
            await node.produce(partition, batch(b"x" * 1_000_000))
            await node.produce(partition, batch(b"x" * 1_000_000))
        for partition in (0, 1, 2):
            here = node.broker.storage.place_of("t", partition)
            await ask(node, "/d0" if here is two.dirs[1] else "/d1", partition)
        moves = node.broker.dir_moves.moves.values()
        assert len(moves) == 3
        while sum(move.size_bytes > 0 for move in moves) < copying:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert sum(move.future is not None for move in moves) == copying


async def test_a_compacted_log_is_not_cleaned_while_it_moves(tmp_path: Path) -> None:
    two = Disks()
    slow = replace(metadata(), configs={(4, ""): {RATE: "1"}})
    async with moving(tmp_path, two, slow) as node:
        await node.produce(0, batch(b"a"))
        partition = node.broker.topics.by_name[b"t"].partitions[0]
        none: Any = None
        cleaner = cleaner_of(node.broker, ManualClock(), none, none, structlog.get_logger())
        assert cleaner.may_clean(partition)
        await ask(node, "/d1", 0)
        assert not cleaner.may_clean(partition)
        await done(node)
        assert cleaner.may_clean(partition)


async def test_a_disk_with_too_little_space_takes_no_copy(tmp_path: Path) -> None:
    two = Disks()
    async with moving(tmp_path, two) as node:
        await node.produce(0, batch(b"a"))
        node.broker.pressure.dirs[two.dirs[1]] = Pressure(Level.REFUSED, 1, 0, 1)
        await moved(node)
        assert node.broker.storage.place_of("t", 0) is two.dirs[0]
        assert list(two.dirs[1].futures) == [] and two.dirs[1].failure is None
        assert (await node.fetch(0, 0)).error_code == 0

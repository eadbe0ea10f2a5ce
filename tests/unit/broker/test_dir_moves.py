"""Replicas that move between the log dirs of one broker (AlterReplicaLogDirs, KIP-113), on disks in memory."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from support.broker import Running, batch, running
from support.log_dirs import Disks, LifecycleTwin, metadata
from support.replicated import values_of
from tailrace.clock import ManualClock
from tailrace.errors import ErrorCode
from tailrace.log.pressure import Level, Pressure
from tailrace.net.background import beside
from tailrace.wire.messages import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from tailrace_broker.cleaner import Cleaner
from tailrace_broker.dir_watch import DirWatch

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@asynccontextmanager
async def moving(path: Path, two: Disks, image: Any = None, *, moves: bool = True) -> AsyncIterator[Running]:
    async with running(path, image or metadata(), log_dirs=two.dirs) as node:
        twin: Any = LifecycleTwin()
        DirWatch(node.broker, twin, ManualClock(), structlog.get_logger())
        if not moves:
            yield node
            return
        async with beside(node.broker.dir_moves.run()):
            yield node


async def ask(node: Running, path: str, *partitions: int, topic: str = "t") -> list[int]:
    one = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    wanted = one(path=path, topics=[one.AlterReplicaLogDirTopic(name=topic, partitions=list(partitions))])
    answer = await node.client.ask(AlterReplicaLogDirsRequest(dirs=[wanted]), timeout_ms=5000)
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
        assert await ask(node, "/d1", 7) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await ask(node, "/d1", 0, topic="x" * 220) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        two.dirs[1].fail(OSError(errno.EIO, "broken"))
        await node.service.ask(DescribeLogDirsRequest(topics=[]), timeout_ms=5000)
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
        _, second = (await node.client.ask(DescribeLogDirsRequest(topics=None), timeout_ms=5000)).results
        coming = [row for topic in second.topics for row in topic.partitions if row.is_future_key]
        assert [(row.partition_index, row.offset_lag > 0, row.partition_size > 0) for row in coming] == [
            (0, True, True)
        ]
        copied = move.size_bytes
    two.dirs = two.open()
    async with moving(tmp_path, two) as node:
        assert copied > 0
        while two.dirs[1].futures():  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert node.broker.storage.place_of("t", 0) is two.dirs[1]
        log = node.broker.topics.by_name[b"t"].partitions[0].log
        found = [last for last, _ in values_of(bytes(log.read(0, 1 << 22).read()))]
        assert (log.directory, found) == ("/d1/t-0", list(range(20)))


async def test_a_disk_that_fails_under_a_copy_costs_the_copy_alone(tmp_path: Path) -> None:
    two = Disks()
    async with moving(tmp_path, two) as node:
        await node.produce(0, batch(b"a"))
        two.disks[1].fail_next("write", OSError(errno.EIO, "broken"))
        await moved(node)
        assert (await node.fetch(0, 0)).error_code == 0
        assert node.broker.storage.place_of("t", 0) is two.dirs[0]


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


@pytest.mark.parametrize("where", ["rename", "sync_directory"])
async def test_a_copy_that_could_not_take_over_does_not_hide_what_was_acknowledged_since(
    tmp_path: Path, where: str
) -> None:
    two = Disks()
    async with moving(tmp_path, two) as node:
        await node.produce(0, batch(b"a"))
        swap, disk = node.broker.storage.swap, two.disks[1]

        def swap_on_a_breaking_disk(*rest: Any) -> Any:
            disk.fail_next(where, OSError(errno.EIO, "broken"))
            return swap(*rest)

        node.broker.storage.swap = swap_on_a_breaking_disk  # type: ignore[assignment, method-assign]
        await moved(node)
        assert node.broker.storage.place_of("t", 0) is two.dirs[0]
        assert (await node.produce(0, batch(b"b"))).error_code == 0
    two.dirs = two.open()
    async with moving(tmp_path, two) as node:
        assert await values(node) == [b"a", b"b"]


async def test_a_compacted_log_is_not_cleaned_while_it_moves(tmp_path: Path) -> None:
    two = Disks()
    slow = replace(metadata(), configs={(4, ""): {RATE: "1"}})
    async with moving(tmp_path, two, slow) as node:
        await node.produce(0, batch(b"a"))
        partition = node.broker.topics.by_name[b"t"].partitions[0]
        worker: Any = None
        cleaner = Cleaner(node.broker, ManualClock(), worker, worker, structlog.get_logger())
        assert cleaner._may_clean(partition)
        await ask(node, "/d1", 0)
        assert not cleaner._may_clean(partition)
        await done(node)
        assert cleaner._may_clean(partition)


async def test_a_disk_with_too_little_space_takes_no_copy(tmp_path: Path) -> None:
    two = Disks()
    async with moving(tmp_path, two) as node:
        await node.produce(0, batch(b"a"))
        node.broker.pressure.dirs[two.dirs[1]] = Pressure(Level.REFUSED, 1, 0, 1)
        await moved(node)
        assert node.broker.storage.place_of("t", 0) is two.dirs[0]
        assert two.dirs[1].futures() == [] and two.dirs[1].failure is None
        assert (await node.fetch(0, 0)).error_code == 0

"""Long recoveries run in threads: other partitions are served meanwhile. On disks in memory that a test can halt."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import structlog

from support.broker import Running, batch, running
from support.log_dirs import metadata
from support.waiting import turns_until
from tailrace.errors import ErrorCode
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINT
from tailrace.log.filesystem.guard import Guard
from tailrace.log.filesystem.memory import MemoryFile, MemoryFilesystem
from tailrace.net.background import in_background
from tailrace.wire.messages import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from tailrace_broker.partitions import recovery

NOT_HERE = ErrorCode.NOT_LEADER_OR_FOLLOWER
NEW_ID = UUID(int=99)


class Halting(MemoryFilesystem):
    """Recovery's threads wait at the first file they open, until the test lets them go on."""

    def __init__(self) -> None:
        super().__init__()
        self.halts = False
        self.go_on = threading.Event()
        self.halted = threading.Semaphore(0)
        self.order: list[str] = []

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if self.halts and threading.current_thread().name.startswith("recovery"):
            self.order.append(path)
            self.halted.release()
            self.go_on.wait()
        return super().open(path, create=create)


def open_dir(disk: MemoryFilesystem) -> LogDir:
    return LogDir.open(Guard(disk), "/d", node_id=0, cluster_id="c", now_ms=0)


async def killed(path: Path, partitions: int = 3) -> Halting:
    """All partitions but the last have a tail that is too long to be checked at once."""
    disk = Halting()
    async with running(path, metadata(partitions), log_dirs=[open_dir(disk)]) as node:
        for index in range(partitions):
            for number in range(3):
                value = b"%d" % number if index == partitions - 1 else b"%d" % number + b"x" * 100_000
                assert (await node.produce(index, batch(value))).error_code == 0
    for name in (CLEAN_SHUTDOWN, RECOVERY_POINT):  # as if no flush and no stop had come before the kill
        disk.remove(f"/d/{name}")
    return disk


@asynccontextmanager
async def recovering(path: Path, disk: Halting, partitions: int = 3, **settings: Any) -> AsyncIterator[Running]:
    log_dir = open_dir(disk)
    log_dir.measure_tails()
    disk.halts = True
    async with (
        running(path, metadata(partitions), log_dirs=[log_dir], **settings) as node,
        in_background(node.broker.publisher.recoveries.run()),
    ):
        await asyncio.to_thread(disk.halted.acquire)
        try:
            yield node
        finally:
            disk.go_on.set()


async def recovered(node: Running) -> None:
    tails = node.broker.storage.configured[0].tails
    while tails.begun or tails.waiting:  # noqa: ASYNC110  a thread and turns of the loop lead there
        await asyncio.sleep(0)


async def test_other_partitions_are_served_while_a_log_is_recovered(tmp_path: Path) -> None:
    disk = await killed(tmp_path)
    async with recovering(tmp_path, disk) as node:
        assert (await node.produce(2, batch(b"beside"))).base_offset == 3
        assert (await node.fetch(2, 3)).high_watermark == 4
        assert [(await node.produce(0, batch(b"a"))).error_code, (await node.fetch(1, 0)).error_code] == [NOT_HERE] * 2
        disk.go_on.set()
        await recovered(node)
        assert [(await node.produce(n, batch(b"a"))).base_offset for n in range(3)] == [3, 3, 4]


async def test_a_stop_in_the_middle_is_not_a_clean_one_and_the_next_start_has_all(tmp_path: Path) -> None:
    disk = await killed(tmp_path)
    async with recovering(tmp_path, disk) as node:
        node.broker.storage.dirs[0].tails.give_up()
    disk.halts = False
    log_dir = open_dir(disk)
    assert not log_dir.last_shutdown.clean
    async with running(tmp_path, metadata(3), log_dirs=[log_dir]) as node:
        assert [(await node.fetch(n, 3)).high_watermark for n in range(3)] == [3, 3, 3]


async def test_no_more_threads_than_num_recovery_threads_per_data_dir_and_who_is_asked_for_is_next(
    tmp_path: Path,
) -> None:
    disk = await killed(tmp_path, 5)
    one = {"num_recovery_threads_per_data_dir": "1"}
    async with recovering(tmp_path, disk, 5, **one) as node:
        tails = node.broker.storage.dirs[0].tails
        assert [list(tails.begun), list(tails.waiting)] == [[("t", 0)], [("t", 1), ("t", 2), ("t", 3)]]
        assert (await node.fetch(3, 0)).error_code == NOT_HERE
        disk.go_on.set()
        await recovered(node)
    folders = list(dict.fromkeys(path.split("/")[2] for path in disk.order if path.endswith(".log")))
    assert folders == ["t-0", "t-3", "t-1", "t-2"]


async def test_two_at_a_time_by_default(tmp_path: Path) -> None:
    disk = await killed(tmp_path, 5)
    async with recovering(tmp_path, disk, 5) as node:
        assert list(node.broker.storage.dirs[0].tails.begun) == [("t", 0), ("t", 1)]


async def test_a_topic_made_anew_under_a_recovery_begins_empty_when_the_old_one_is_gone(tmp_path: Path) -> None:
    disk = await killed(tmp_path)
    async with recovering(tmp_path, disk) as node:
        node.follower.move(topics={}, topic_names={})
        new = replace(metadata(3).topics["t"], topic_id=NEW_ID)
        node.follower.move(topics={"t": new}, topic_names={NEW_ID: "t"})
        assert (await node.produce(0, batch(b"a"))).error_code == NOT_HERE
        assert (await node.produce(2, batch(b"a"))).base_offset == 0  # nothing kept that one
        disk.go_on.set()
        await recovered(node)
        assert [(await node.produce(n, batch(b"a"))).base_offset for n in range(3)] == [0, 0, 1]


async def test_a_disk_that_fails_under_a_recovery_is_offline_and_the_broker_goes_on(tmp_path: Path) -> None:
    disk = await killed(tmp_path)
    async with recovering(tmp_path, disk) as node:
        disk.fail_all(OSError(errno.EIO, "broken"), ("read",))
        disk.go_on.set()
        await recovered(node)
        assert node.broker.storage.offline
        assert (await node.produce(0, batch(b"a"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_what_is_being_recovered_is_described_and_does_not_move(tmp_path: Path) -> None:
    disk = await killed(tmp_path)
    async with recovering(tmp_path, disk) as node:
        found = (await node.client.ask(DescribeLogDirsRequest(topics=None), timeout_ms=60_000)).results[0]
        sizes = {row.partition_index: row.partition_size for topic in found.topics for row in topic.partitions}
        assert sizes[0] > 300_000 > sizes[2] > 0
        one = AlterReplicaLogDirsRequest.AlterReplicaLogDir
        wanted = one(path="/d", topics=[one.AlterReplicaLogDirTopic(name="t", partitions=[0])])
        answer = await node.client.ask(AlterReplicaLogDirsRequest(dirs=[wanted]), timeout_ms=60_000)
        assert answer.results[0].partitions[0].error_code == ErrorCode.REPLICA_NOT_AVAILABLE


class Lender:
    """A log dir whose logs are their numbers; it lends them to threads."""

    failure: OSError | None = None

    def __init__(self) -> None:
        self.high_watermarks: dict[tuple[str, int], int] = {}
        self.taken_back: list[int] = []

    def open_logs(self) -> dict[tuple[str, int], int]:
        return {("t", index): index for index in range(4)}

    def lend(self, key: tuple[str, int], change: Callable[[int], None]) -> Any:
        return SimpleNamespace(key=key, run=partial(change, key[1]))

    def take_back(self, loan: Any) -> None:
        self.taken_back.append(loan.key[1])


async def test_logs_that_were_cut_are_told_of_together_and_those_that_were_not_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A follower begins its fetch from their leader anew each time."""

    def cut(index: Any) -> None:
        if index == 2:
            raise OSError(errno.EMFILE, "too many open files")

    lender, told, later = Lender(), list[int](), list[tuple[float, Callable[[], None]]]()
    storage: Any = SimpleNamespace(place_of=lambda topic, index: lender)
    one = recovery.Recoveries(storage, lambda: 1, structlog.get_logger())
    one.subscribe(lambda keys: told.extend(index for _, index in keys))
    async with in_background(one.run()):
        await asyncio.sleep(0)
        with monkeypatch.context() as patch:
            patch.setattr(
                asyncio.get_running_loop(),
                "call_later",
                lambda seconds, call, *rest: later.append((seconds, partial(call, *rest))),
            )
            for index in range(4):
                partition: Any = SimpleNamespace(
                    topic="t", index=index, opened=index, high_watermark=0, close=lambda: None
                )
                assert one.change(partition, cut)
            await turns_until(lambda: len(lender.taken_back) == 4)
        together, rest = sorted(later, key=lambda one: one[0])
        together[1]()
        assert sorted(told) == [0, 1, 3]
        rest[1]()
        assert told[3:] == [2]

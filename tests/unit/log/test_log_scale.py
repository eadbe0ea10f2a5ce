"""Many partitions and segments: what a start opens, how many files stay open, what a checkpoint looks at."""

import errno
import gc
import os
import random
import resource
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Thread, get_ident
from typing import Any
from uuid import UUID
from weakref import ref

import pytest

from support.logs import NOW, append, open_log, values_of, with_settings
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.filesystem.open_files import OpenFiles, sync_files
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.log.flush import Flush
from tailrace.log.log import Log

TOPIC_ID = UUID(int=5)
SETTINGS = with_settings()


class CountingDirectorySyncs(MemoryFilesystem):
    """Notes which directories are synced."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []
        self.broken = ""  # this one cannot be

    def sync_directory(self, path: str) -> None:
        if path == self.broken:
            raise OSError(errno.EIO, "broken")
        self.synced.append(path)
        super().sync_directory(path)


def open_dir(filesystem: MemoryFilesystem) -> LogDir:
    return LogDir.open(filesystem, "/logs", node_id=0, cluster_id="c", now_ms=NOW)


def filled(filesystem: MemoryFilesystem, partitions: int) -> LogDir:
    """One record in each partition."""
    logs = open_dir(filesystem)
    for partition in range(partitions):
        append(logs.create("t", partition, TOPIC_ID, SETTINGS), b"%d" % partition)
    return logs


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_opens_as_many_files_for_many_partitions_as_for_few(clean: bool) -> None:
    opens = []
    for partitions in (2, 300):
        filesystem = MemoryFilesystem()
        logs = filled(filesystem, partitions)
        if clean:
            logs.close()
        filesystem.kill()
        before = filesystem.opens
        again = open_dir(filesystem)
        opens.append(filesystem.opens - before)
        assert (again.last_shutdown.clean, len(again.partitions())) == (clean, partitions)
    assert opens[0] == opens[1]


def test_a_stop_syncs_the_directory_of_each_partition_once_and_that_above_as_often_for_many_as_for_few() -> None:
    above = []
    for partitions in (2, 100):
        filesystem = CountingDirectorySyncs()
        logs = filled(filesystem, partitions)
        filesystem.synced.clear()
        logs.close()
        assert [filesystem.synced.count(f"/logs/t-{partition}") for partition in range(partitions)] == [1] * partitions
        above.append(filesystem.synced.count("/logs"))
        filesystem.crash(random.Random(7))
        again = open_dir(filesystem)
        found = [again.log("t", partition) for partition in range(partitions)]
        assert again.last_shutdown.clean and [log and log.log_end_offset for log in found] == [1] * partitions
        assert [again.topic_id("t", partition) for partition in range(partitions)] == [TOPIC_ID] * partitions
    assert above[0] == above[1]


def test_a_stop_is_no_clean_one_where_the_directory_above_could_not_be_synced() -> None:
    filesystem = CountingDirectorySyncs()
    logs = filled(filesystem, 3)
    filesystem.broken = "/logs"
    with pytest.raises(OSError, match="broken"):
        logs.close()
    assert [log.recovery_point for log in logs.open_logs().values()] == [0] * 3
    filesystem.crash(random.Random(7))
    assert not open_dir(filesystem).last_shutdown.clean


def test_more_logs_than_files_may_be_open_are_written_and_read() -> None:
    filesystem = MemoryFilesystem(OpenFiles(limit=8))
    logs = filled(filesystem, 40)
    for partition in range(40):
        log = logs.log("t", partition)
        assert log is not None
        append(log, b"more")
        assert len(filesystem.open_files) <= 8
    for partition in range(40):
        log = logs.log("t", partition)
        assert log is not None and values_of(log) == [b"%d" % partition, b"more"]
    assert filesystem.open_files.freed >= 40 + 40 + 40 - 8


def test_what_fits_is_opened_once() -> None:
    filesystem = MemoryFilesystem(OpenFiles(limit=8))
    logs = filled(filesystem, 8)
    before = filesystem.opens
    for partition in range(8):
        log = logs.log("t", partition)
        assert log is not None
        append(log, b"more")
        assert values_of(log) == [b"%d" % partition, b"more"]
    assert (filesystem.opens, filesystem.open_files.freed) == (before, 0)


def test_a_slice_outlives_that_its_segment_let_the_file_go_and_was_deleted() -> None:
    filesystem = MemoryFilesystem(OpenFiles(limit=1))
    logs = filled(filesystem, 2)
    first = logs.log("t", 0)
    assert first is not None
    held = first.read(0, 1000)
    expected = held.read()
    logs.log("t", 1).read(0, 1000).read()  # type: ignore[union-attr]
    logs.delete("t", 0, NOW)
    assert held.read() == expected


def test_deleted_logs_give_their_files_back_at_once() -> None:
    filesystem = MemoryFilesystem(OpenFiles(limit=100))
    logs = filled(filesystem, 3)
    opened = [ref(segment) for log in logs.open_logs().values() for segment in log.segments]
    gc.disable()  # a full disk cannot wait for a collection, which an idle broker has no reason for
    try:
        for partition in range(3):
            logs.delete("t", partition, NOW)
        assert len(opened) == 3 and all(segment() is None for segment in opened)
    finally:
        gc.enable()


def test_a_flush_of_what_was_let_go_reaches_the_disk() -> None:
    filesystem = MemoryFilesystem(OpenFiles(limit=1))
    logs = filled(filesystem, 3)
    logs.close()
    for partition in range(3):
        assert filesystem.content(f"/logs/t-{partition}/{0:020d}.log")
    again = open_dir(filesystem)
    assert again.last_shutdown.clean and all(values_of(again.log("t", p)) == [b"%d" % p] for p in range(3))  # type: ignore[arg-type]


def full(limit: int) -> tuple[MemoryFilesystem, OpenFiles]:
    filesystem = MemoryFilesystem(OpenFiles(limit))
    return filesystem, filesystem.open_files


def crowd(logs: LogDir, *partitions: int) -> None:
    for partition in partitions:
        append(logs.create("t", partition, TOPIC_ID, SETTINGS), b"%d" % partition)


def partition_of(holder: Any) -> int:
    return int(holder.directory.rpartition("-")[2])


def lost_in_write_back(filesystem: MemoryFilesystem, partition: int = 0) -> None:
    filesystem.fail_to_write_back(f"/logs/t-{partition}/{0:020d}.log")
    filesystem.forget_unused()


def test_a_file_is_synced_before_it_is_let_go_of() -> None:
    """Or nobody would be told that the kernel could not write it, once it has forgotten the file."""
    filesystem, open_files = full(2)
    logs = filled(filesystem, 1)
    crowd(logs, 1, 2)
    assert open_files.freed == 1
    lost_in_write_back(filesystem)  # not any more
    assert filesystem.fork().content(f"/logs/t-0/{0:020d}.log") == filesystem.content(f"/logs/t-0/{0:020d}.log")
    filesystem.crash(random.Random(1))
    again = open_dir(filesystem)
    assert values_of(again.log("t", 0)) == [b"0"]  # type: ignore[arg-type]


def test_what_is_not_synced_stays_open_until_somebody_has_synced_it() -> None:
    filesystem, open_files = full(4)
    heard: list[int] = []
    open_files.relieved_by(lambda: heard.append(open_files.owed))
    logs = filled(filesystem, 6)
    assert (len(open_files), open_files.freed, heard) == (6, 0, [])
    crowd(logs, 6)
    assert (len(open_files), open_files.freed, heard) == (7, 0, [1])
    owed = open_files.take_owed(9)
    (partition,) = map(partition_of, owed)
    lost_in_write_back(filesystem, partition)
    sync_files(owed)  # it is told, as it has the file open
    log = logs.log("t", partition)
    assert log is not None and log.segments.active.failed_sync is not None
    open_files.put_back(owed)
    assert (len(open_files), open_files.freed, open_files.owed) == (6, 1, 0)
    with pytest.raises(OSError, match="written back"):
        log.flush()


def test_what_was_written_while_it_was_synced_stays_open() -> None:
    filesystem, open_files = full(4)
    open_files.relieved_by(lambda: None)
    logs = filled(filesystem, 7)
    owed = open_files.take_owed(1)
    (partition,) = map(partition_of, owed)
    sync_files(owed)
    crowd(logs, partition)
    open_files.put_back(owed)
    assert open_files.freed == 0
    lost_in_write_back(filesystem, partition)
    with pytest.raises(OSError, match="written back"):
        logs.log("t", partition).flush()  # type: ignore[union-attr]


class Busy:
    """A holder that owes a sync until it had one; notes in which threads it was asked to let go."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.owes = True

    def free(self) -> bool:
        self.asked.append(get_ident())
        return not self.owes

    def sync_file(self) -> None:
        self.owes = False


def test_another_thread_syncs_and_leaves_it_to_that_of_the_logs_to_let_go() -> None:
    open_files, holders = OpenFiles(limit=4), [Busy() for _ in range(9)]
    open_files.relieved_by(lambda: None)

    def open_all() -> None:
        for holder in holders[:-1]:
            open_files.add(holder)

    for opens in (open_all, lambda: open_files.add(holders[-1])):
        elsewhere = Thread(target=opens)
        elsewhere.start()
        elsewhere.join()
        asked = {thread for holder in holders for thread in holder.asked}
        synced = [holder for holder in holders if not holder.owes]
        open_files.make_room()
    assert asked == {get_ident()}
    assert len(synced) == 1
    for _ in holders:
        open_files.make_room()
    assert (open_files.freed, len(open_files)) == (1, 8)


def test_the_one_who_opens_syncs_where_the_others_fall_behind() -> None:
    filesystem, open_files = full(4)
    open_files.relieved_by(lambda: None)
    filled(filesystem, 40)
    assert len(open_files) <= 4 + 2 + 1


def test_what_a_process_that_was_killed_wrote_is_synced_before_it_is_let_go_of() -> None:
    filesystem = MemoryFilesystem()
    filled(filesystem, 1)
    filesystem.kill()
    filesystem.open_files = OpenFiles(2)
    filesystem.open_files.relieved_by(lambda: None)
    logs = open_dir(filesystem)
    log = logs.log("t", 0)
    crowd(logs, 1, 2)
    assert log is not None and log.recovery_point == 0
    lost_in_write_back(filesystem)
    with pytest.raises(OSError, match="written back"):
        log.flush()


def test_what_is_on_the_disk_is_let_go_of_at_once() -> None:
    filesystem, open_files = full(3)
    open_files.relieved_by(lambda: None)
    logs = filled(filesystem, 3)
    for log in logs.open_logs().values():
        log.flush()
    crowd(logs, 3, 4, 5)
    assert open_files.freed == 3


@pytest.mark.parametrize(
    ("settings", "due"),
    [
        ({}, False),  # flush.ms is never: nothing is due before a segment is rolled
        ({"flush_ms": 1000}, True),
    ],
)
def test_a_log_says_whether_a_flush_is_to_come_without_another_append(settings: dict[str, int], due: bool) -> None:
    log = open_log(MemoryFilesystem(), with_settings(**settings))
    assert not log.flush_to_come
    append(log, b"v")
    assert log.flush_to_come == due
    log.roll()
    assert log.flush_to_come
    log.flush()
    assert not log.flush_to_come


def test_a_close_begins_with_some_logs_at_a_time_so_that_their_files_do_not_pile_up() -> None:
    filesystem = MemoryFilesystem()
    logs = filled(filesystem, 600)
    open_at_once: list[int] = []
    begin, finish = Log.begin_close, Log.finish_close
    begun: set[Log] = set()

    def counted(log: Log) -> Flush | None:
        begun.add(log)
        open_at_once.append(len(begun))
        return begin(log)

    def ended(log: Log, done: Flush) -> None:
        begun.discard(log)
        finish(log, done)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Log, "begin_close", counted)
        patch.setattr(Log, "finish_close", ended)
        logs.close()
    assert len(open_at_once) == 600 and max(open_at_once) <= 256


def test_where_no_descriptor_is_left_segments_let_go_of_theirs(tmp_path: Path) -> None:
    """Sockets have taken the rest: a roll, an older segment and a flush want some, and get them."""
    filesystem = RealFilesystem(OpenFiles())
    log = Log.open(filesystem, str(tmp_path / "t-0"), with_settings(segment_bytes=200))
    for number in range(12):
        append(log, b"%d" % number)
    log.flush()
    assert len(values_of(log)) == 12  # every segment has its file open
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = list[int]()
    # Those that are open have numbers below the limit, or nobody could use what they give back.
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 2, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for number in range(12, 20):
            append(log, b"%d" % number)
            log.flush()
        assert values_of(log) == [b"%d" % number for number in range(20)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)
    assert filesystem.open_files.freed > 0


def test_another_thread_that_finds_no_descriptor_has_those_of_the_logs_let_go() -> None:
    open_files, holders, full = OpenFiles(), [Busy() for _ in range(9)], list[int]()
    open_files.relieved_by(lambda: full.append(get_ident()))
    for holder in holders:
        holder.owes = False
        open_files.add(holder)
    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(open_files.shed).result()
    assert len(full) == 1 and not any(holder.asked for holder in holders)
    open_files.make_room()
    assert (open_files.freed, len(open_files)) == (5, 4)
    assert open_files.shed() and len(open_files) == 2

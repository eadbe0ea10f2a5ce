"""The Filesystem port: the real one and its twin behave alike, and the twin fails and crashes as told."""

import errno
import random
from pathlib import Path

import pytest

from support.logs import append, open_log, values_of
from tailrace.log.config import LogConfig
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.filesystem.port import Filesystem, read_file, write_file_atomically
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.log.log import Log


@pytest.fixture(params=["real", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Filesystem, str]:
    filesystem: Filesystem = RealFilesystem() if request.param == "real" else MemoryFilesystem()
    root = str(tmp_path / "dir")
    filesystem.make_directory(root)
    return filesystem, root


def test_files_are_written_read_cut_and_measured(place: tuple[Filesystem, str]) -> None:
    filesystem, root = place
    with pytest.raises(FileNotFoundError):
        filesystem.open(root + "/a")
    file = filesystem.open(root + "/a", create=True)
    file.pwritev([b"hello ", bytearray(b"big "), memoryview(b"world")], 2)
    assert file.pread(100, 0) == b"\0\0hello big world" and file.pread(5, 8) == b"big w"
    file.truncate(4)
    file.sync()
    assert file.stat().size_bytes == 4 and read_file(filesystem, root + "/a") == b"\0\0he"


def test_more_buffers_than_one_call_takes_are_written_whole(place: tuple[Filesystem, str]) -> None:
    filesystem, root = place
    file = filesystem.open(root + "/a", create=True)
    file.pwritev([bytes([number % 256]) * 3 for number in range(3000)], 0)
    content = file.pread(10_000, 0)
    assert len(content) == 9000 and content[3 * 1500] == 1500 % 256 and content[-1] == 2999 % 256


def test_names_are_listed_renamed_over_and_removed(place: tuple[Filesystem, str]) -> None:
    filesystem, root = place
    write_file_atomically(filesystem, root, "one", b"1")
    write_file_atomically(filesystem, root, "two", b"2")
    held = filesystem.open(root + "/two")
    filesystem.rename(root + "/one", root + "/two")
    assert filesystem.list(root) == ["two"] and read_file(filesystem, root + "/two") == b"1"
    assert held.pread(1, 0) == b"2", "who holds a replaced file still reads it"
    with pytest.raises(OSError, match=r".*"):
        filesystem.remove(root)
    filesystem.remove(root + "/two")
    filesystem.remove(root)
    with pytest.raises(FileNotFoundError):
        filesystem.list(root)


def test_a_lock_is_held_until_its_file_is_gone(place: tuple[Filesystem, str]) -> None:
    filesystem, root = place
    held = filesystem.lock(root + "/.lock")
    with pytest.raises(BlockingIOError):
        filesystem.lock(root + "/.lock")
    del held
    filesystem.lock(root + "/.lock")


def test_the_log_works_on_real_files_and_its_slices_have_descriptors(tmp_path: Path) -> None:
    log = Log.open(RealFilesystem(), str(tmp_path / "t-0"), LogConfig())
    for number in range(20):
        append(log, b"%d" % number)
    part = log.read(0, 10_000)
    assert part.file.fileno() > 2 and len(part.read()) == part.length == log.size_bytes
    log.reset_to(50)
    assert len(part.read()) == part.length


def test_the_twin_loses_what_was_not_synced() -> None:
    outcomes = set()
    for seed in range(40):
        filesystem = MemoryFilesystem()
        filesystem.make_directory("/d")
        file = filesystem.open("/d/a", create=True)
        file.pwritev([b"safe"], 0)
        file.sync()
        filesystem.sync_directory("/d")
        file.pwritev([b"lost?"], 4)
        filesystem.crash(random.Random(seed))
        outcomes.add(bytes(filesystem.content("/d/a")))
    assert {b"safe", b"safelost?"} <= outcomes and b"safelo" in outcomes
    assert all(content.startswith(b"safe") for content in outcomes)


def test_the_twin_forgets_a_failed_fsync_as_the_kernel_does() -> None:
    filesystem = MemoryFilesystem()
    filesystem.make_directory("/d")
    file = filesystem.open("/d/a", create=True)
    filesystem.sync_directory("/d")
    file.pwritev([b"data"], 0)
    filesystem.fail_next("sync", OSError(errno.EIO, "io"))
    with pytest.raises(OSError, match="io"):
        file.sync()
    file.sync()
    filesystem.crash(random.Random(0))
    assert bytes(filesystem.content("/d/a")) == b""


def test_what_a_failed_fsync_left_in_the_cache_is_forgotten_when_it_is_read_again() -> None:
    filesystem = MemoryFilesystem()
    filesystem.page_bytes = 4
    filesystem.make_directory("/d")
    file = filesystem.open("/d/a", create=True)
    file.pwritev([b"kept"], 0)
    file.sync()
    file.pwritev([b"lost"], 4)
    filesystem.fail_next("sync", OSError(errno.EIO, "io"))
    with pytest.raises(OSError, match="io"):
        file.sync()
    file.pwritev([b"late"], 8)  # which is still to be written
    assert file.pread(12, 0) == b"keptlostlate"
    file.reread()
    assert file.pread(12, 0) == b"kept\0\0\0\0late"


def test_reading_again_changes_nothing_on_a_sound_disk(place: tuple[Filesystem, str]) -> None:
    filesystem, root = place
    file = filesystem.open(root + "/a", create=True)
    file.pwritev([b"synced"], 0)
    file.sync()
    file.pwritev([b" and not"], 6)
    file.reread()
    assert file.pread(100, 0) == b"synced and not"


def test_the_twin_tells_a_failure_to_write_back_as_the_kernel_does() -> None:
    # errseq_t: to every file that was open before it and, until somebody was told, to those opened after it.
    filesystem = MemoryFilesystem()
    filesystem.make_directory("/d")
    before = filesystem.open("/d/a", create=True)
    before.pwritev([b"lost"], 0)
    filesystem.fail_to_write_back("/d/a")
    after = filesystem.open("/d/a")
    for file in (after, before):
        with pytest.raises(OSError, match="written back"):
            file.sync()
        file.sync()
    filesystem.open("/d/a").sync()
    assert before.pread(4, 0) == b"lost"
    before.reread()
    assert before.pread(4, 0) == b""


def test_a_failed_flush_does_not_move_the_recovery_point() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem)
    append(log, b"a")
    filesystem.fail_next("sync", OSError(errno.EIO, "io"))
    with pytest.raises(OSError, match="io"):
        log.flush()
    assert log.recovery_point == 0 and values_of(log) == [b"a"]

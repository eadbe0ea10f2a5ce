"""Write-back that really fails, on ext4 in a file on a disk that fills up: the kernel calls clean what never got there.

Read again from the page cache it looks whole, the next fsync says yes, and it is gone with the next power cut. A start
on the same boot must not believe it, whether the process before it saw the failure or not.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest

from support.hosts import missing_for_disks, run
from support.logs import NOW, some_batch, values_of
from tailrace.errors import ErrorCode
from tailrace.log.config import LogConfig
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.guard import Guard
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.log.log import Log

BIG = LogConfig(segment_bytes=1 << 30, message_timestamp_after_max_ms=2**62)
ROOM, ENOUGH, BATCHES, BATCH_BYTES = "12m", "80m", 48, 500_000
MARK = ".disk-failed"


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """ext4 in a sparse file of 64 MiB, on a tmpfs that has room for a part of that."""
    if why := missing_for_disks():
        pytest.skip(why)
    room, path = tmp_path / "room", tmp_path / "disk"
    room.mkdir()
    path.mkdir()
    run("mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(room))
    try:
        image = room / "image"
        with image.open("wb") as sparse:
            sparse.truncate(64 << 20)
        run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=0", str(image))
        run("mount", "-o", "loop", str(image), str(path))
        try:
            yield path
        finally:
            gc.collect()
            run("umount", "-l", str(path))  # a test that failed may keep files open
    finally:
        run("umount", "-l", str(room))


def opened(path: Path) -> tuple[LogDir, Log]:
    """A process starts, as a broker opens the directory."""
    logs = LogDir.open(Guard(RealFilesystem()), str(path / "logs"), node_id=0, cluster_id="c", now_ms=NOW)
    return logs, logs.create("t", 0, UUID(int=5), BIG)


def append(log: Log, count: int) -> None:
    for _ in range(count):
        (answer,) = log.append([some_batch(os.urandom(BATCH_BYTES))], 0, NOW)
        assert answer.error_code == ErrorCode.NONE


def appended(path: Path, *, seen: bool) -> tuple[int, int]:
    """A process's life: (offset that a flush has covered, log end). Its last flush fails, if it lives to see it.

    Then the disk is well again.
    """
    logs, log = opened(path)
    append(log, 2)
    log.flush()
    logs.checkpoint()
    flushed = log.log_end_offset
    append(log, BATCHES)
    if seen:
        with pytest.raises(OSError):
            log.flush()
    else:
        os.sync()  # the kernel writes back by itself, and nobody hears how that went
    assert (path / "logs" / MARK).exists() == seen
    logs.release()
    run("mount", "-o", f"remount,size={ENOUGH}", str(path.parent / "room"))
    return flushed, log.log_end_offset


def life(path: Path) -> list[bytes | None] | None:
    """A process's: its values when all is flushed; None where the kernel still had a failure to tell."""
    with suppress(OSError):
        logs, log = opened(path)
        log.flush()
        logs.checkpoint()
        values = values_of(log, max_bytes=4 << 20)
        assert len(values) == log.log_end_offset
        return values
    assert (path / "logs" / MARK).exists()
    return None


def started(path: Path) -> tuple[list[bytes | None], int]:
    """(values, starts it took): a failure that the kernel tells late takes the directory offline once more."""
    for starts in range(1, 5):
        gc.collect()  # the process before is gone, and its files are closed
        if (values := life(path)) is not None:
            return values, starts
    raise AssertionError("the disk fails for good")


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "unseen"])
def test_a_start_on_the_same_boot_believes_only_what_the_disk_has(mounted: Path, seen: bool) -> None:
    flushed, end = appended(mounted, seen=seen)
    believed, starts = started(mounted)
    assert flushed <= len(believed) < end
    assert seen or starts > 1, "the failure that nobody saw was told to the first flush"
    gc.collect()
    Path("/proc/sys/vm/drop_caches").write_text("1")
    assert started(mounted) == (believed, 1)

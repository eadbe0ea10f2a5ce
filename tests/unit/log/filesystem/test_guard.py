"""A disk under guard: after its first failure nothing is written or promised any more."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from support.logs import NOW, append, open_log, some_batch
from tailrace.errors import ErrorCode
from tailrace.log.filesystem.guard import DirectoryOffline, Guard
from tailrace.log.filesystem.memory import MemoryFilesystem

EIO = OSError(errno.EIO, "the disk is broken")


def guarded() -> tuple[MemoryFilesystem, Guard, list[OSError]]:
    disk = MemoryFilesystem()
    guard = Guard(disk)
    heard: list[OSError] = []
    guard.on_failure = heard.append
    return disk, guard, heard


@pytest.mark.parametrize(
    "operation", ["write", "sync", "read", "read at once", "look", "look only", "warm", "read again", "truncate"]
)
def test_a_failed_operation_on_a_file_takes_the_disk_offline(operation: str) -> None:
    disk, guard, heard = guarded()
    guard.make_directory("/d")
    file = guard.open("/d/a", create=True)
    disk.fail_next(operation if operation in ("write", "sync", "truncate") else "read", EIO)
    attempts: dict[str, Callable[[], object]] = {
        "write": lambda: file.pwritev([b"x"], 0),
        "sync": file.sync,
        "read": lambda: file.pread(1, 0),
        "read at once": lambda: file.pread_cached(1, 0),
        "look": lambda: file.cached(1, 0),
        "look only": lambda: file.resident(0),
        "warm": lambda: file.warm(1, 0),
        "read again": file.reread,
        "truncate": lambda: file.truncate(0),
    }
    with pytest.raises(OSError, match="broken"):
        attempts[operation]()
    assert heard == [EIO]
    for change in (
        lambda: file.pwritev([b"x"], 0),
        file.sync,
        lambda: guard.rename("/d/a", "/d/b"),
        lambda: guard.remove("/d/a"),
        lambda: guard.make_directory("/d/e"),
        lambda: guard.sync_directory("/d"),
        lambda: guard.open("/d/c", create=True),
    ):
        with pytest.raises(DirectoryOffline, match="the disk is broken"):
            change()
    assert heard == [EIO]
    assert disk.list("/d") == ["a"]


@pytest.mark.parametrize("operation", ["open", "rename", "remove", "sync_directory"])
def test_a_failed_change_of_names_takes_the_disk_offline(operation: str) -> None:
    disk, guard, heard = guarded()
    guard.make_directory("/d")
    guard.open("/d/a", create=True)
    disk.fail_next(operation, EIO)
    attempts: dict[str, Callable[[], object]] = {
        "open": lambda: guard.open("/d/a"),
        "rename": lambda: guard.rename("/d/a", "/d/b"),
        "remove": lambda: guard.remove("/d/a"),
        "sync_directory": lambda: guard.sync_directory("/d"),
    }
    with pytest.raises(OSError, match="broken"):
        attempts[operation]()
    assert heard == [EIO]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENAMETOOLONG])
def test_what_is_not_there_and_what_the_process_lacks_is_not_the_disks_fault(number: int) -> None:
    disk, guard, heard = guarded()
    guard.make_directory("/d")
    disk.fail_next("open", OSError(number, "no"))
    with pytest.raises(OSError, match="no"):
        guard.open("/d/a", create=True)
    assert guard.failure is None and heard == []
    guard.open("/d/a", create=True).pwritev([b"x"], 0)


def test_after_a_failed_fsync_a_log_takes_and_promises_nothing_though_the_kernel_would_say_yes() -> None:
    disk, guard, _ = guarded()
    log = open_log(guard)
    append(log, b"promised")
    log.flush()
    append(log, b"lost")
    disk.fail_next("sync", EIO)
    with pytest.raises(OSError, match="broken"):
        log.flush()
    disk.heal()
    with pytest.raises(DirectoryOffline):
        log.flush()
    (refused,) = log.append([some_batch(b"late")], 0, NOW)
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.recovery_point == 1

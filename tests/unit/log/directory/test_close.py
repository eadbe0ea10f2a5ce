"""A log directory that is being closed: at no call may it be taken for one that was closed cleanly."""

from __future__ import annotations

import random
from collections.abc import Callable
from uuid import UUID

import pytest

from support.logs import NOW, append, values_of
from tailrace.log.config import LogConfig
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.memory import MemoryFilesystem, Stopped

LOGS = 12


def opened(filesystem: MemoryFilesystem) -> LogDir:
    return LogDir.open(filesystem, "/logs", node_id=0, cluster_id="c", now_ms=NOW)


def written(count: int = LOGS, filesystem: MemoryFilesystem | None = None) -> LogDir:
    logs = opened(filesystem or MemoryFilesystem())
    for index in range(count):
        append(logs.create("t", index, UUID(int=1), LogConfig()), b"%d" % index)
    return logs


def found(logs: LogDir) -> list[list[bytes | None]]:
    every = [logs.log("t", index) for index in range(LOGS)]
    return [values_of(log) for log in every if log is not None]


EVERYTHING = [[b"%d" % index] for index in range(LOGS)]


def closed_within(calls: int, filesystem: MemoryFilesystem) -> bool:
    """Whether a close ends before the process stops, which it does after so many calls of the filesystem."""
    logs = written(filesystem=filesystem)
    filesystem.stop_after(calls)
    try:
        logs.close(broker_epoch=4)
    except Stopped:
        return False
    return True


def test_a_process_that_ends_at_any_call_was_not_closed_cleanly_and_nothing_is_lost() -> None:
    ended, clean = False, list[bool]()
    while not ended:
        filesystem = MemoryFilesystem()
        ended = closed_within(len(clean), filesystem)
        filesystem.kill()
        again = opened(filesystem)
        clean.append(again.last_shutdown.clean)
        assert found(again) == EVERYTHING
    assert len(clean) > 50 and clean == sorted(clean)  # the marker comes last


@pytest.mark.parametrize("seed", range(3))
def test_after_a_power_cut_a_marker_speaks_for_everything(seed: int) -> None:
    ended, number = False, 0
    while not ended:
        filesystem = MemoryFilesystem()
        ended = closed_within(number, filesystem)
        filesystem.crash(random.Random(seed))
        again = opened(filesystem)
        assert again.last_shutdown.clean or not ended
        assert not again.last_shutdown.clean or found(again) == EVERYTHING
        number += 1


class Watched(MemoryFilesystem):
    """Looks once, at the first sync."""

    def __init__(self) -> None:
        super().__init__()
        self.look: Callable[[], None] | None = None

    def maybe_fail(self, operation: str) -> None:
        if operation == "sync" and self.look is not None:
            look, self.look = self.look, None
            look()
        super().maybe_fail(operation)


def test_no_log_is_opened_once_the_others_are_being_closed() -> None:
    """Nothing would flush it, and the marker would speak for it."""
    filesystem, looks = Watched(), list[LogDir]()
    written(filesystem=filesystem).close()
    logs = opened(filesystem)
    log = logs.create("t", 0, UUID(int=1), LogConfig())
    append(log, b"more")

    def look() -> None:
        with pytest.raises(OSError, match="being closed"):
            logs.log("t", 1)
        with pytest.raises(OSError, match="being closed"):
            logs.create("t", LOGS, UUID(int=1), LogConfig())
        assert logs.log("t", 0) is log
        looks.append(logs)

    filesystem.look = look
    logs.close()
    assert looks == [logs]
    assert opened(filesystem).partitions() == [("t", index) for index in range(LOGS)]


def test_a_disk_that_fails_leaves_no_marker() -> None:
    filesystem = MemoryFilesystem()
    logs = written(filesystem=filesystem)
    filesystem.fail_next("sync", OSError(5, "broken"))
    with pytest.raises(OSError, match="broken"):
        logs.close()
    logs.release()
    filesystem.kill()
    assert not opened(filesystem).last_shutdown.clean

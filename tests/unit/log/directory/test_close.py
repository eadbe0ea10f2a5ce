"""A log directory is closed in steps: at none of them it may be taken for one that was closed cleanly too early."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from support.logs import NOW, append, values_of
from support.steps import steps
from tailrace.log.config import LogConfig
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.steps import DiskSteps, DiskWork, whole_on_disk

LOGS = 12  # some steps


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


def run(closing: DiskSteps, most: int) -> bool:
    """Runs so many of the steps; whether that was all."""
    for _ in range(most):
        try:
            work = next(closing)
        except StopIteration:
            return True
        if work is not None:
            work.run()
    return False


def test_a_process_that_ends_between_two_steps_was_not_closed_cleanly_and_nothing_is_lost() -> None:
    ended, clean = False, list[bool]()
    while not ended:
        filesystem = MemoryFilesystem()
        ended = run(written(filesystem=filesystem).begin_close(broker_epoch=4), len(clean))
        filesystem.kill()
        again = opened(filesystem)
        clean.append(again.last_shutdown.clean)
        assert found(again) == EVERYTHING
    assert len(clean) > 4 and clean == [*[False] * (len(clean) - 2), True, True]  # the marker comes last


@pytest.mark.parametrize("seed", range(3))
def test_after_a_power_cut_a_marker_speaks_for_everything(seed: int) -> None:
    ended, number = False, 0
    while not ended:
        filesystem = MemoryFilesystem()
        ended = run(written(filesystem=filesystem).begin_close(), number)
        filesystem.crash(random.Random(seed))
        again = opened(filesystem)
        assert again.last_shutdown.clean or not ended
        assert not again.last_shutdown.clean or found(again) == EVERYTHING
        number += 1


def test_the_longest_step_does_not_grow_with_the_logs() -> None:
    """Without what is for a thread."""

    def longest(count: int) -> int:
        closing = written(count).begin_close()
        longest, work = 0, list[Any]()

        def step() -> None:
            work.append(next(closing, closing))

        while closing not in work:
            longest = max(longest, steps(step))
            if isinstance(work[-1], DiskWork):
                work[-1].run()
        return longest

    longest(10)  # what is remembered from the first on is no part of it
    assert longest(600) < 1.3 * longest(300)


def test_no_log_is_opened_once_the_others_are_being_closed() -> None:
    """Nobody would flush it, and the marker would speak for it."""
    filesystem = MemoryFilesystem()
    written(filesystem=filesystem).close()
    logs = opened(filesystem)
    logs.log("t", 0)
    closing = logs.begin_close()
    next(closing)
    with pytest.raises(OSError, match="being closed"):
        logs.log("t", 1)
    with pytest.raises(OSError, match="being closed"):
        logs.create("t", LOGS, UUID(int=1), LogConfig())
    assert logs.log("t", 0) is not None
    whole_on_disk(closing)
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

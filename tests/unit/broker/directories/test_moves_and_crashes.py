"""A broker that loses its power at any step of a replica's change of log dirs: what was synced is there, once."""

from __future__ import annotations

from itertools import count
from random import Random
from uuid import UUID

import pytest

from support.log_dirs import Disks
from support.logs import NOW, SMALL, append, some_batch
from support.transactions import data_batch, marker_batch, read_committed, write
from tailrace.config import Config
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.records.markers import ABORT, COMMIT
from tailrace_broker.directories.storage import Storage

TOPIC_ID = UUID(int=5)
RECORDS = 20
START = 3  # the records below were deleted, and that was acknowledged
CONFIG = Config.load("broker", overrides={"node.id": "0"})


class PowerLost(OSError):
    """Nothing that the broker does has an effect any more."""


class Mains:
    """What both disks hang on: it fails after so many operations of them together."""

    def __init__(self) -> None:
        self.left: int | None = None

    def use(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise PowerLost


class PoweredDisk(MemoryFilesystem):
    """A disk in memory on the mains."""

    def __init__(self, mains: Mains) -> None:
        super().__init__()
        self.mains = mains

    def maybe_fail(self, operation: str) -> None:
        self.mains.use()
        super().maybe_fail(operation)


def storage_on(two: Disks) -> Storage:
    two.dirs = two.open()
    return Storage(two.dirs, CONFIG, lambda: 0)


def change(storage: Storage, two: Disks, promised: list[int] | None = None) -> None:
    """All of a move, as dir_moves.py does it; promised is told the log end offset that a flush after it promises."""
    source, target = storage.open("t", TOPIC_ID, 0), two.dirs[1]
    future = target.futures.open("t", 0, TOPIC_ID, SMALL, 0)
    future.append_replicated(source.read(source.log_start_offset, 1 << 20).read(), 0)
    future.flush()
    target.futures.mark("t", 0, ready=True)
    future.advance_log_start_offset(source.log_start_offset)
    target.begin_log_start_checkpoint(("t", 0), future)()
    future.producers = source.producers
    left = storage.swap("t", 0, target, future, RECORDS)
    if promised is not None:
        (appended,) = future.append([some_batch(b"behind")], 0, NOW)
        if appended.error_code:
            raise PowerLost
    future.flush()
    if promised is not None:
        promised.append(future.log_end_offset)
    storage.sweep(("t", 0), left, target)


@pytest.mark.parametrize("seed", range(3))
def test_power_lost_at_any_step_of_the_change_leaves_one_whole_replica(seed: int) -> None:
    for steps in count():
        mains, two = Mains(), Disks()
        two.disks = [PoweredDisk(mains), PoweredDisk(mains)]
        storage = storage_on(two)
        log = storage.open("t", TOPIC_ID, 0)
        append(log, *[b"%d" % n for n in range(RECORDS)])
        log.flush()
        log.advance_log_start_offset(START)
        two.dirs[0].checkpoint()
        mains.left = steps
        finished, promised = True, [RECORDS]
        try:
            change(storage, two, promised)
        except OSError:
            finished = False
        finished = finished and mains.left >= 0  # what the sweep suppresses
        mains.left = None
        for disk in two.disks:
            disk.crash(Random(1000 * seed + steps))
        storage = storage_on(two)
        place = storage.place_of("t", 0)
        assert place is two.dirs[1] or (place is two.dirs[0] and not finished)
        log = storage.open("t", TOPIC_ID, 0)
        assert log.log_start_offset == START
        assert promised[-1] <= log.log_end_offset <= RECORDS + 1
        assert sum(log_dir.holds("t", 0) for log_dir in two.dirs) == 1
        if finished:
            assert steps > 10
            return


@pytest.mark.parametrize("restarted", [False, True])
def test_transactions_come_along_open_and_aborted(restarted: bool) -> None:
    two = Disks()
    storage = Storage(two.dirs, CONFIG, lambda: 0)
    log = storage.open("t", TOPIC_ID, 0)
    append(log, b"plain")
    write(log, data_batch(7, b"aborted"), marker_batch(7, ABORT), data_batch(8, b"open"))
    append(log, b"behind")
    before = read_committed(log, 5, 1 << 20, 0)
    assert before == [(0, b"plain")]
    change(storage, two)
    if restarted:
        for log_dir in two.dirs:
            log_dir.close()
        storage = storage_on(two)
    moved = storage.open("t", TOPIC_ID, 0)
    assert (moved.directory, moved.last_stable_offset(5)) == ("/d1/t-0", 3)
    assert read_committed(moved, 5, 1 << 20, 0) == before
    write(moved, marker_batch(8, COMMIT))
    found = [value for _, value in read_committed(moved, moved.log_end_offset, 1 << 20, 0)]
    assert found == [b"plain", b"open", b"behind"]

"""What is deleted goes when its delay is over, by one list for all logs of a directory."""

from __future__ import annotations

import errno
from itertools import chain

import pytest

from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.filesystem.pending_deletions import PendingDeletions, remove_paths


def test_paths_are_due_after_their_own_delays() -> None:
    pending = PendingDeletions()
    pending.add("late", 1000, 60_000)
    pending.add("soon", 1000, 10)
    pending.add("at once")
    assert pending.due(1000) == ["at once"]
    assert pending.due(1009) == [] and pending.due(1010) == ["soon"]
    assert pending.due(60_999) == [] and pending.due(61_000) == ["late"]
    assert pending.due(10**9) == []


def test_a_path_that_is_deleted_again_has_the_later_delay() -> None:
    pending = PendingDeletions()
    pending.add("t-0/0.log.deleted", 0, 100)
    pending.add("t-0/0.log.deleted", 50, 100)
    assert pending.due(100) == [] and pending.due(150) == ["t-0/0.log.deleted"]


def test_a_clock_that_is_set_back_costs_one_delay_at_most() -> None:
    pending = PendingDeletions()
    pending.add("a", 10**9, 100)
    pending.add("b", 10**9, 50)
    assert pending.due(0) == [] and pending.due(50) == ["b"] and pending.due(100) == ["a"]


def test_many_come_some_at_a_time() -> None:
    pending, names = PendingDeletions(), {str(n) for n in range(1200)}
    for name in names:
        pending.add(name)
    pieces = [pending.due(0) for _ in range(4)]
    assert [len(piece) for piece in pieces] == [500, 500, 200, 0] and set(chain(*pieces)) == names


def test_one_that_cannot_be_removed_does_not_keep_the_others() -> None:
    filesystem = MemoryFilesystem()
    filesystem.make_directory("/d/t-0.1-delete")
    for path in ("/d/a", "/d/b", "/d/t-0.1-delete/0.log"):
        filesystem.open(path, create=True)
    filesystem.fail_next("remove", OSError(errno.EBUSY, "busy"))
    with pytest.raises(OSError, match="busy"):
        remove_paths(filesystem, ["/d/a", "/d/gone", "/d/b", "/d/t-0.1-delete"])
    assert filesystem.list("/d") == ["a"]

"""A log that another thread changes is in nobody else's hands, whatever becomes of it meanwhile."""

import errno
from collections.abc import Callable
from uuid import UUID

import pytest

from support.logs import NOW, append, values_of, with_settings
from tailrace.log.background_lookup import Search
from tailrace.log.directory.borrowed_log import BorrowedLog, begin_anew, cut
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.log import Log

TOPIC_ID = UUID(int=5)
KEY = ("t", 0)


def open_dir(filesystem: MemoryFilesystem) -> LogDir:
    return LogDir.open(filesystem, "/logs", node_id=0, cluster_id="c", now_ms=NOW)


def lent(offset: int = 2, **settings: int) -> tuple[MemoryFilesystem, LogDir, BorrowedLog]:
    """A log of six records, to be cut at an offset."""
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    log = logs.create(*KEY, TOPIC_ID, with_settings(**settings))
    for number in range(6):
        append(log, b"%d" % number, leader_epoch=number // 3)
    return filesystem, logs, logs.lend(KEY, lambda log: cut(log, offset))


def test_nobody_uses_a_log_that_is_lent() -> None:
    _, logs, loan = lent()
    size = loan.log.size_bytes
    with pytest.raises(BlockingIOError):
        logs.log(*KEY)
    assert logs.holds(*KEY) and logs.partitions() == [KEY] and logs.lent(*KEY)
    assert logs.size_bytes(*KEY) == size
    assert not logs.open_logs()
    logs.checkpoint()
    assert logs.pending_deletions.due(NOW) == []
    loan.run()
    logs.take_back(loan)
    assert logs.log(*KEY) is loan.log
    assert values_of(loan.log) == [b"0", b"1"]
    assert not logs.lent(*KEY)


def test_what_was_begun_on_a_log_before_it_was_lent_does_not_count() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    log = logs.create(*KEY, TOPIC_ID, with_settings())
    append(log, b"0")
    search, flush = Search(log, NOW, 1), log.begin_flush(NOW, everything=True)
    assert flush is not None
    logs.lend(KEY, lambda log: None)
    flush.run()
    log.finish_flush(flush)
    assert (search.stale, log.recovery_point) == (True, 0)


def test_settings_that_changed_meanwhile_are_taken_up() -> None:
    _, logs, loan = lent()
    logs.set_configs({"t": with_settings(retention_bytes=7)})
    loan.run()
    logs.take_back(loan)
    assert loan.log.config.retention_bytes == 7


def test_a_log_that_was_deleted_meanwhile_goes_when_the_thread_has_left_it() -> None:
    filesystem, logs, loan = lent()
    logs.delete(*KEY, NOW)
    assert logs.holds(*KEY)
    loan.run()
    assert any("/t-0/" in path for path in filesystem.files())
    logs.take_back(loan)
    assert not logs.holds(*KEY)
    assert not any("/t-0/" in path for path in filesystem.files())


@pytest.mark.parametrize("ran", [True, False])
def test_a_stop_closes_it_with_the_others(ran: bool) -> None:
    filesystem, logs, loan = lent()
    if ran:
        loan.run()
    logs.close(7)
    filesystem.kill()
    again = open_dir(filesystem)
    log = again.log(*KEY)
    assert again.last_shutdown.clean and log is not None
    assert log.log_end_offset == (2 if ran else 6)


@pytest.mark.parametrize("operation", ["rename", "truncate", "sync", "sync_directory", "open"])
@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("change", [lambda log: cut(log, 2), lambda log: begin_anew(log, 50)], ids=["cut", "anew"])
def test_a_log_that_failed_in_the_middle_of_a_change_is_what_its_files_say(
    operation: str, after: int, stopped: bool, change: Callable[[Log], None]
) -> None:
    filesystem = MemoryFilesystem()
    open_dir(filesystem).close()
    logs = open_dir(filesystem)  # after a clean stop, which says nothing of this log any more
    settings = with_settings(segment_bytes=200)
    log = logs.create(*KEY, TOPIC_ID, settings)
    for number in range(6):
        append(log, b"%d" % number, leader_epoch=number // 3)
    log.flush()
    logs.checkpoint()
    loan = logs.lend(KEY, change)
    filesystem.fail_next(operation, OSError(errno.EMFILE, "Too many open files"), after)
    try:
        loan.run()
    except OSError:
        pass
    else:
        filesystem.heal()
    logs.take_back(loan)
    if stopped:
        logs.close(7)
        filesystem.kill()
        logs = open_dir(filesystem)
        assert logs.last_shutdown.clean
    again = logs.create(*KEY, TOPIC_ID, settings)
    assert loan.failed or stopped or again is log
    assert values_of(again) == [b"%d" % number for number in range(again.log_start_offset, again.log_end_offset)]
    assert again.segments.bases == [int(path[-24:-4]) for path in sorted(filesystem.files()) if path.endswith(".log")]
    change(again)
    append(again, b"next", leader_epoch=3)
    assert values_of(again)[-1] == b"next" and again.log_start_offset in (0, 50)


def test_a_long_log_that_failed_is_recovered_in_a_thread() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    log = logs.create(*KEY, TOPIC_ID, with_settings(segment_bytes=10**6))
    for _ in range(3):
        append(log, bytes(100_000))
    loan = logs.lend(KEY, lambda log: cut(log, 2))
    filesystem.fail_next("truncate", OSError(errno.EMFILE, "Too many open files"))
    with pytest.raises(OSError, match="Too many"):
        loan.run()
    logs.take_back(loan)
    assert list(logs.tails.waiting) == [KEY]
    recovery = logs.begin_recovery(*KEY, with_settings(segment_bytes=10**6))
    recovery.run()
    logs.finish_recovery(recovery)
    again = logs.log(*KEY)
    assert again is not None and again.log_end_offset == 3


@pytest.mark.parametrize(("messages", "flushed"), [(2**62, 0), (1, 4)])
def test_flush_messages_holds_for_what_a_cut_leaves(messages: int, flushed: int) -> None:
    """Its leader takes a follower's next fetch as a promise."""
    _, logs, loan = lent(4, flush_messages=messages)
    loan.run()
    logs.take_back(loan)
    assert (loan.log.log_end_offset, loan.log.recovery_point) == (4, flushed)


def test_a_follower_that_has_nothing_of_its_leaders_begins_anew() -> None:
    logs = open_dir(MemoryFilesystem())
    log: Log = logs.create(*KEY, TOPIC_ID, with_settings())
    append(log, b"0")
    loan = logs.lend(KEY, lambda log: begin_anew(log, 50))
    loan.run()
    logs.take_back(loan)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)

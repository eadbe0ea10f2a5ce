"""A log that another thread changes, because that waits for the disk: it is out of its LogDir's hands until then."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.kafka.ids import TopicPartition
from tailrace.log.log import Log


class BorrowedLog:
    """run() in a thread, then LogDir.take_back, whatever came of it; nobody else may use the log in between."""

    def __init__(self, key: TopicPartition, log: Log, change: Callable[[Log], None]) -> None:
        self.key = key
        self.log = log
        self.failed = False  # the change ended in its middle: what the log knows may not be what its files say
        self.deleted_ms: int | None = None  # when it was deleted meanwhile: its files go when the thread has left them
        self._change = change
        # What others began on it does not count any more: they look at these before they tell the log.
        log.cuts += 1
        log.compaction = None

    def run(self) -> None:
        """Raises what the change does."""
        self.failed = True
        self._change(self.log)
        self.failed = False


def cut(log: Log, offset: int) -> None:
    """A follower agrees with its leader; what flush.messages owes of the rest reaches the disk, too."""
    log.truncate_to(offset)
    if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
        log.flush()


def begin_anew(log: Log, offset: int) -> None:
    """A follower has nothing of what its leader has."""
    log.reset_to(offset)

"""What an unclean stop left that takes too long to check where others wait: found at the start, checked in threads.

A LogDir hands a Recovery out; its run() touches nothing of the LogDir, so that other logs go on meanwhile.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple

from tailrace.kafka.ids import TopicPartition
from tailrace.log.filesystem.port import Filesystem, join
from tailrace.log.log import Log
from tailrace.log.recovery.loader import RecoveryProgress
from tailrace.log.segment.segment import LOG_SUFFIX, bases_of, file_name

# Less of a tail is checked at the log's first use, in a few milliseconds.
AT_ONCE_BYTES: Final = 256 * 1024


class Tail(NamedTuple):
    """The segments that a recovery looks into, from the one that holds the recovery point on."""

    segments: int
    size_bytes: int


def tail_of(filesystem: Filesystem, directory: str, recovery_point: int) -> Tail:
    """Measures a log without opening it. Raises OSError."""
    bases = bases_of(filesystem.list(directory))
    tail = [file_name(base, LOG_SUFFIX) for base in bases[max(0, bisect_right(bases, recovery_point) - 1) :]]
    return Tail(len(tail), sum(filesystem.open(join(directory, name)).stat().size_bytes for name in tail))


class Recovery:
    """One log on its way: run() in a thread, then LogDir.finish_recovery with it, whatever came of it."""

    def __init__(self, key: TopicPartition, tail: Tail, open_log: Callable[[RecoveryProgress], Log]) -> None:
        self.key = key
        self.tail = tail
        self.progress = RecoveryProgress(tail.segments)
        self.deleted_ms: int | None = None  # when it was deleted meanwhile: its files go when the thread has left them
        self.log: Log | None = None
        self._open_log = open_log

    def run(self) -> None:
        """Checks the log. Raises OSError, and RecoveryStopped after stop()."""
        self.log = self._open_log(self.progress)

    def stop(self) -> None:
        """Has run() end soon, in another thread; what it has done so far does no harm."""
        self.progress.stopped = True


class LongTails:
    """The logs of one directory that are still to be recovered in threads, or are just now."""

    def __init__(self) -> None:
        self.waiting: dict[TopicPartition, Tail] = {}
        self.begun: dict[TopicPartition, Recovery] = {}
        self.given_up = False  # one that somebody wants was not recovered: this life cannot end cleanly

    def __contains__(self, key: TopicPartition) -> bool:
        return key in self.waiting or key in self.begun

    @property
    def remaining_segments(self) -> int:
        """Segments that were not checked yet."""
        running = sum(recovery.progress.segments_left for recovery in self.begun.values())
        return running + sum(tail.segments for tail in self.waiting.values())

    def give_up(self) -> None:
        """Stops those that run; the next start checks as this one did."""
        self.given_up = True
        for recovery in self.begun.values():
            recovery.stop()

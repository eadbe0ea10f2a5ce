"""What a log directory knows of its logs that nobody uses, without opening them. These are methods of LogDir."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.kafka.ids import TopicPartition
from tailrace.log.config import LogSettings
from tailrace.log.directory import unopened_log
from tailrace.log.directory.unopened_log import Listing

if TYPE_CHECKING:
    from tailrace.log.directory.log_dir import LogDir


def size_bytes(log_dir: LogDir, topic: str, partition: int) -> int:
    """Of the partition's .log files, without opening the log; 0 if there is none. Raises OSError."""
    loan = log_dir._lent.get((topic, partition))
    log = log_dir._logs.get((topic, partition)) if loan is None else loan.log
    if log is not None:
        return log.size_bytes
    known = _listing(log_dir, (topic, partition))
    return 0 if known is None else known.size_bytes


def _listing(log_dir: LogDir, key: TopicPartition) -> Listing | None:
    """The files of a log that is not open, looked at once; None of any other. Raises OSError."""
    if key not in log_dir._unopened:
        return None
    known = log_dir._listings.get(key)
    if known is None:
        known = log_dir._listings[key] = unopened_log.look(log_dir._filesystem, log_dir._directory(key))
    return known


def begin_look(log_dir: LogDir, keys: Iterable[TopicPartition]) -> Callable[[], None]:
    """Call it, in another thread if you like: what is known of these logs without opening them is then at hand."""
    fresh = [key for key in keys if key in log_dir._unopened and key not in log_dir._listings]

    def look_at_them() -> None:
        for key in fresh:
            with suppress(FileNotFoundError):  # deleted meanwhile
                log_dir._listings[key] = unopened_log.look(log_dir._filesystem, log_dir._directory(key))

    return look_at_them


def has_work(log_dir: LogDir, topic: str, partition: int, settings: LogSettings, now_ms: int) -> bool:
    """Whether retention or compaction may have something to do in a log that is not open.

    After an unclean shutdown always: its files may not be what they seem. Raises OSError.
    """
    key = (topic, partition)
    known = _listing(log_dir, key)
    if known is None:
        return False
    if key in log_dir.tails:
        return False  # not before it is recovered
    if not log_dir._was_closed(key):
        return True
    start_offset = log_dir.offsets.log_start_offsets.get(key, 0)
    return unopened_log.has_work(known, settings, now_ms, start_offset, log_dir.offsets.cleaned_offsets.get(key, 0))

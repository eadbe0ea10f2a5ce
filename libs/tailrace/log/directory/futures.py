"""Replicas on their way into a log directory (KIP-113): a copy grows in a -future folder, then takes its log's place.

Until nothing is left where it came from, a mark lets a start compare the two. These are methods of LogDir.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tailrace.kafka.ids import TopicPartition
from tailrace.log.config import LogSettings
from tailrace.log.directory.checkpoints import PARTITION_METADATA, format_partition_metadata
from tailrace.log.directory.unopened_log import DELETE_SUFFIX, FUTURE_SUFFIX, OF_ANY_POLICY
from tailrace.log.filesystem.port import join, write_file_atomically
from tailrace.log.log import Log

if TYPE_CHECKING:
    from tailrace.log.directory.log_dir import LogDir

_MOVED: Final = ".moved"  # in a log that took another dir's place, until that one is gone


def futures(log_dir: LogDir) -> list[TopicPartition]:
    """The partitions that are on their way here."""
    return sorted(log_dir._futures)


def moved_here(log_dir: LogDir, topic: str, partition: int) -> bool:
    """Whether the partition took another dir's place, and what is left there is out of date."""
    return log_dir._read(f"{topic}-{partition}/{_MOVED}") is not None


def open_future(log_dir: LogDir, topic: str, partition: int, topic_id: UUID, config: LogSettings, now_ms: int) -> Log:
    """The log a replica is copied into, made if there is none; what a crash left in it is checked."""
    key = (topic, partition)
    if key in log_dir._futures and log_dir.future_id(topic, partition) != topic_id:
        log_dir.drop_future(topic, partition, now_ms)
    fresh = key not in log_dir._futures
    name = f"{topic}-{partition}.{log_dir._new_id().hex}{FUTURE_SUFFIX}" if fresh else log_dir._futures[key]
    directory = join(log_dir.path, name)
    expiration_ms = log_dir.producer_id_expiration_ms
    log = Log.open(log_dir._filesystem, directory, config, producer_id_expiration_ms=expiration_ms)
    if fresh:
        content = format_partition_metadata(topic_id)
        write_file_atomically(log_dir._filesystem, directory, PARTITION_METADATA, content)
        log_dir._futures[key] = name
    return log


def drop_future(log_dir: LogDir, topic: str, partition: int, now_ms: int) -> None:
    """Gives up what was copied so far."""
    name = log_dir._futures.pop((topic, partition), None)
    if name is not None:
        target = join(log_dir.path, name.removesuffix(FUTURE_SUFFIX) + DELETE_SUFFIX)
        log_dir._filesystem.rename(join(log_dir.path, name), target)
        log_dir._doomed.add(target, now_ms, 0)


def mark_future(log_dir: LogDir, topic: str, partition: int, ready: bool) -> None:
    """Before the copy takes over, in a thread if you like: a start then compares it with the original.

    From here until moved_from_is_gone the one that was written to longer is the partition's log.
    """
    directory = join(log_dir.path, log_dir._futures[topic, partition])
    if ready != (_MOVED in log_dir._filesystem.list(directory)):
        if ready:
            write_file_atomically(log_dir._filesystem, directory, _MOVED, b"")
        else:
            log_dir._filesystem.remove(join(directory, _MOVED))
            log_dir._filesystem.sync_directory(directory)


def adopt_future(log_dir: LogDir, topic: str, partition: int, log: Log, high_watermark: int) -> None:
    """Makes the copy, which is complete and was marked, the partition's log. Waits for no disk: flush it then."""
    key = (topic, partition)
    log_dir._filesystem.rename(join(log_dir.path, log_dir._futures[key]), log_dir._directory(key))
    del log_dir._futures[key]
    log.renamed(log_dir._directory(key))
    # No cleaned offset: what compaction dropped while the copy was made may be in it.
    log_dir.high_watermarks[key] = high_watermark
    log_dir._configs[topic] = log.config
    log.producer_id_expiration_ms = log_dir.producer_id_expiration_ms  # it may have changed while the copy was made
    log_dir._take_in(key, log)


def marked_future(log_dir: LogDir, topic: str, partition: int) -> bool:
    """Whether a copy lies here that may have taken over, though its directory was not renamed."""
    name = log_dir._futures.get((topic, partition))
    return name is not None and log_dir._read(f"{name}/{_MOVED}") is not None


def future_id(log_dir: LogDir, topic: str, partition: int) -> UUID | None:
    """The topic id of a copy on its way."""
    return log_dir._topic_id(log_dir._futures[topic, partition])


def future_extent(log_dir: LogDir, topic: str, partition: int) -> tuple[int, int]:
    """As extent, of a copy on its way; what a crash left in it is checked."""
    directory = join(log_dir.path, log_dir._futures[topic, partition])
    log = Log.open(log_dir._filesystem, directory, log_dir._configs.get(topic) or OF_ANY_POLICY)
    return log.epochs.latest, log.log_end_offset


def promote(log_dir: LogDir, topic: str, partition: int) -> None:
    """At the start: the copy is the partition's log."""
    name = log_dir._futures.pop((topic, partition))
    log_dir._filesystem.rename(join(log_dir.path, name), log_dir._directory((topic, partition)))
    log_dir._filesystem.sync_directory(log_dir.path)
    log_dir._unopened.add((topic, partition))


def promote_orphans(log_dir: LogDir, elsewhere: Callable[[TopicPartition], bool]) -> None:
    """At the start, with every dir readable: a copy whose original is nowhere is the partition's log."""
    for key in [key for key in log_dir._futures if not elsewhere(key)]:
        log_dir.promote(*key)


def moved_from_is_gone(log_dir: LogDir, topic: str, partition: int) -> None:
    """Nothing out of date is left of the partition in another dir."""
    log_dir._filesystem.remove(f"{log_dir.path}/{topic}-{partition}/{_MOVED}")

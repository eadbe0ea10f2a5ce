"""Replicas on their way into a log directory (KIP-113): a copy grows in a -future folder, then takes its log's place.

Until nothing is left where it came from, a mark lets a start compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

from tailrace.kafka.ids import TopicPartition
from tailrace.log.config import LogSettings
from tailrace.log.directory.offsets import DirOffsets
from tailrace.log.filesystem.checkpoints import PARTITION_METADATA, format_partition_metadata, topic_id_in
from tailrace.log.filesystem.names import DELETE_SUFFIX, FUTURE_SUFFIX
from tailrace.log.filesystem.pending_deletions import PendingDeletions
from tailrace.log.filesystem.port import Filesystem, exists, join, write_file_atomically
from tailrace.log.local_log import PRODUCER_ID_EXPIRATION_MS
from tailrace.log.log import Log

_MOVED: Final = ".moved"  # in a log that took another dir's place, until that one is gone


class FutureLogs:
    """The copies in one directory, each in a folder of its own; iterating gives their partitions in order."""

    def __init__(
        self,
        filesystem: Filesystem,
        path: str,
        deletions: PendingDeletions,
        offsets: DirOffsets,
        new_id: Callable[[], UUID],
    ) -> None:
        self._filesystem = filesystem
        self._path = path
        self._deletions = deletions
        self._offsets = offsets
        self._new_id = new_id
        self._names: dict[TopicPartition, str] = {}

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(sorted(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def found(self, name: str) -> None:
        """At the start: a folder of this name, which ends with FUTURE_SUFFIX, lies in the directory."""
        topic, _, partition = name.rpartition(".")[0].rpartition("-")
        if topic and partition.isdigit():  # else nobody's
            self._names[topic, int(partition)] = name

    def folder(self, topic: str, partition: int) -> str:
        """The path of a copy."""
        return join(self._path, self._names[topic, partition])

    def open(
        self,
        topic: str,
        partition: int,
        topic_id: UUID,
        config: LogSettings,
        now_ms: int,
        *,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> Log:
        """The log a replica is copied into, made if there is none; what a crash left in it is checked."""
        key = (topic, partition)
        if key in self._names and self.topic_id(topic, partition) != topic_id:
            self.drop(topic, partition, now_ms)
        fresh = key not in self._names
        name = f"{topic}-{partition}.{self._new_id().hex}{FUTURE_SUFFIX}" if fresh else self._names[key]
        directory = join(self._path, name)
        log = Log.open(self._filesystem, directory, config, producer_id_expiration_ms=producer_id_expiration_ms)
        if fresh:
            content = format_partition_metadata(topic_id)
            write_file_atomically(self._filesystem, directory, PARTITION_METADATA, content)
            self._names[key] = name
        return log

    def drop(self, topic: str, partition: int, now_ms: int) -> None:
        """Gives up what was copied so far."""
        name = self._names.pop((topic, partition), None)
        if name is not None:
            target = join(self._path, name.removesuffix(FUTURE_SUFFIX) + DELETE_SUFFIX)
            self._filesystem.rename(join(self._path, name), target)
            self._offsets.forget((topic, partition))
            self._deletions.add(target)

    def mark(self, topic: str, partition: int, ready: bool) -> None:
        """Before the copy takes over, in a thread if you like: a start then compares it with the original.

        From here until moved_from_is_gone the one that was written to longer is the partition's log.
        """
        directory = self.folder(topic, partition)
        if ready != (_MOVED in self._filesystem.list(directory)):
            if ready:
                write_file_atomically(self._filesystem, directory, _MOVED, b"")
            else:
                self._filesystem.remove(join(directory, _MOVED))
                self._filesystem.sync_directory(directory)

    def is_marked(self, topic: str, partition: int) -> bool:
        """Whether a copy lies here that may have taken over, though its folder was not renamed."""
        return (topic, partition) in self._names and exists(
            self._filesystem, join(self.folder(topic, partition), _MOVED)
        )

    def topic_id(self, topic: str, partition: int) -> UUID | None:
        """The topic id of a copy."""
        return topic_id_in(self._filesystem, self.folder(topic, partition))

    def extent(self, topic: str, partition: int, config: LogSettings) -> tuple[int, int]:
        """(latest leader epoch, log end offset) of a copy; what a crash left in it is checked."""
        log = Log.open(self._filesystem, self.folder(topic, partition), config)
        return log.epochs.latest, log.log_end_offset

    def take_place(self, topic: str, partition: int, directory: str) -> None:
        """The copy's folder becomes the partition's directory; no sync."""
        self._filesystem.rename(self.folder(topic, partition), directory)
        del self._names[topic, partition]

    # -- of a copy that has taken its log's place -----------------------------------------------------------------

    def moved_here(self, topic: str, partition: int) -> bool:
        """Whether the partition took another dir's place, and what is left there is out of date."""
        return exists(self._filesystem, f"{self._path}/{topic}-{partition}/{_MOVED}")

    def moved_from_is_gone(self, topic: str, partition: int) -> None:
        """Nothing out of date is left of the partition in another dir."""
        self._filesystem.remove(f"{self._path}/{topic}-{partition}/{_MOVED}")

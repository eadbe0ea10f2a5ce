"""The logs of one directory that nobody uses, and what is known of them without opening them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from tailrace.kafka.ids import TopicPartition
from tailrace.log.directory.unopened_log import PartitionFiles, look
from tailrace.log.filesystem.port import Filesystem


class UnopenedLogs:
    """Add them as they are found; forget one when it is opened or deleted."""

    def __init__(self, filesystem: Filesystem, path: str) -> None:
        self.keys: set[TopicPartition] = set()
        self.given_up: set[TopicPartition] = set()  # of those: open once since the start, and left as they were
        self._filesystem = filesystem
        self._path = path
        self._listings: dict[TopicPartition, PartitionFiles] = {}  # as far as somebody asked

    def give_up(self, key: TopicPartition) -> None:
        """A log that was open is unopened again, and its files are not as a clean start needs them."""
        self.keys.add(key)
        self.given_up.add(key)

    def forget(self, key: TopicPartition) -> None:
        """The log is open, or gone."""
        self.keys.discard(key)
        self.given_up.discard(key)
        self._listings.pop(key, None)

    def listing(self, key: TopicPartition) -> PartitionFiles | None:
        """The files of a log, looked at once; None of one that is not unopened. Raises OSError."""
        if key not in self.keys:
            return None
        known = self._listings.get(key)
        if known is None:
            known = self._listings[key] = self._look(key)
        return known

    def _look(self, key: TopicPartition) -> PartitionFiles:
        return look(self._filesystem, f"{self._path}/{key[0]}-{key[1]}")

    def begin_look(self, keys: Iterable[TopicPartition]) -> Callable[[], None]:
        """Call it, in another thread if you like: what is known of these logs without opening them is then at hand."""
        fresh = [key for key in keys if key in self.keys and key not in self._listings]

        def look_at_them() -> None:
            for key in fresh:
                with suppress(FileNotFoundError):  # deleted meanwhile
                    self._listings[key] = self._look(key)

        return look_at_them

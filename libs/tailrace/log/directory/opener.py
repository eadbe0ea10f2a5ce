"""How the logs of one directory are opened: by what its checkpoints, its last shutdown and the topics' settings say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tailrace.kafka.ids import TopicPartition
from tailrace.log.config import LogSettings
from tailrace.log.directory.offsets import DirOffsets
from tailrace.log.directory.start import LastShutdown
from tailrace.log.directory.unopened import UnopenedLogs
from tailrace.log.directory.unopened_log import OF_ANY_POLICY
from tailrace.log.filesystem.checkpoints import RECOVERY_POINT
from tailrace.log.filesystem.port import Filesystem
from tailrace.log.log import Log
from tailrace.log.recovery.loader import RecoveryProgress

DAY_MS: Final = 24 * 60 * 60 * 1000


class TopicSettings:
    """The settings of topics, as far as somebody has said them."""

    def __init__(self) -> None:
        self._known: dict[str, LogSettings] = {}
        self._opened_without = set[str]()  # topics of which a log was opened before anybody said their settings

    def get(self, topic: str) -> LogSettings | None:
        """None where nobody has said them."""
        return self._known.get(topic)

    def to_open(self, topic: str) -> LogSettings:
        """What a log of the topic is opened with, also before anybody has said its settings."""
        known = self._known.get(topic)
        if known is None:
            self._opened_without.add(topic)
        return known or OF_ANY_POLICY

    def update(self, settings: Mapping[str, LogSettings]) -> None:
        """These hold from now on."""
        self._known.update(settings)
        self._opened_without.difference_update(settings)

    def learn(self, topic: str, settings: LogSettings) -> bool:
        """Notes what a log is about to be opened with. Whether it is news to logs that may be open."""
        if topic not in self._known and topic not in self._opened_without:
            self._known[topic] = settings  # of a new topic there is no log to look for
        return self._known.get(topic) != settings


class LogOpener:
    """Of one directory."""

    def __init__(
        self,
        filesystem: Filesystem,
        path: str,
        offsets: DirOffsets,
        unopened: UnopenedLogs,
        last_shutdown: LastShutdown,
    ) -> None:
        self.settings = TopicSettings()
        self.producer_id_expiration_ms = DAY_MS
        self._filesystem = filesystem
        self._path = path
        self._offsets = offsets
        self._unopened = unopened
        self._last_shutdown = last_shutdown

    def directory(self, key: TopicPartition) -> str:
        """The path of the partition's directory."""
        return f"{self._path}/{key[0]}-{key[1]}"

    def was_closed(self, key: TopicPartition) -> bool:
        """Whether all files of an unopened log are as a clean start needs them."""
        closed = self._last_shutdown.clean and key in self._offsets.recovery_points
        return closed and key not in self._unopened.given_up

    def prepare(self, key: TopicPartition) -> Callable[[RecoveryProgress], Log]:
        """What is to be called, in a thread if you like, to open and recover the log; it changes nothing here."""
        offsets = self._offsets
        recovery_point = offsets.recovery_points.get(key, 0)
        load = partial(
            Log.open,
            self._filesystem,
            self.directory(key),
            self.settings.to_open(key[0]),
            recovery_point=recovery_point,
            log_start_offset=offsets.log_start_offsets.get(key, 0),
            cleaned_offset=offsets.cleaned_offsets.get(key, 0),
            compacted=self._last_shutdown.any_compacted or key in offsets.cleaned_offsets,
            clean=self.was_closed(key),
            producer_id_expiration_ms=self.producer_id_expiration_ms,
        )

        def open_log(progress: RecoveryProgress) -> Log:
            if key in offsets.unsettled:
                offsets.settle()
            log = load(progress=progress)
            if log.recovery_point < recovery_point:
                offsets.lower(key, RECOVERY_POINT, log.recovery_point)  # something below it was damaged
            return log

        return open_log

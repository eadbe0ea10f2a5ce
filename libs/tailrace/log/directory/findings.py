"""What a log directory turns out to hold: logs that were recovered or put aside, damaged segments and checkpoints."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tailrace.kafka.ids import TopicPartition
from tailrace.log.log import Log
from tailrace.log.segment.segment import Segment


class Stray(NamedTuple):
    """A partition's directory that was put aside; path is its new one."""

    key: TopicPartition
    path: str
    why: str


class FindingsListener(Protocol):
    """Hears of each finding, once."""

    def recovered(self, key: TopicPartition, log: Log) -> None:
        """The log was opened after an unclean shutdown, and so was checked."""

    def put_aside(self, stray: Stray) -> None:
        """A directory was put aside."""

    def damaged(self, key: TopicPartition, segment: Segment) -> None:
        """A batch or an index of the segment is wrong."""

    def mended(self, name: str) -> None:
        """A checkpoint was damaged and is put right; name is its path in the directory."""


class Findings:
    """The findings of one directory. Those of its start stay in `strays` and `mended` for each listener."""

    def __init__(self) -> None:
        self.strays: list[Stray] = []
        self.mended: list[str] = []
        self.damaged_segments = 0
        self._listeners: list[FindingsListener] = []

    def subscribe(self, listener: FindingsListener) -> None:
        """The listener hears of what was found at the start, and of each finding from now on."""
        for name in self.mended:
            listener.mended(name)
        for stray in self.strays:
            listener.put_aside(stray)
        self._listeners.append(listener)

    def note_recovered(self, key: TopicPartition, log: Log) -> None:
        """See FindingsListener.recovered."""
        for listener in self._listeners:
            listener.recovered(key, log)

    def note_stray(self, stray: Stray) -> None:
        """See FindingsListener.put_aside."""
        if not self._listeners:
            self.strays.append(stray)
        for listener in self._listeners:
            listener.put_aside(stray)

    def note_damaged(self, key: TopicPartition, segment: Segment) -> None:
        """See FindingsListener.damaged."""
        self.damaged_segments += 1
        for listener in self._listeners:
            listener.damaged(key, segment)

    def note_mended(self, name: str) -> None:
        """See FindingsListener.mended."""
        if not self._listeners:
            self.mended.append(name)
        for listener in self._listeners:
            listener.mended(name)

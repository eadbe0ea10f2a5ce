"""A broker with two log dirs on disks in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID

from support.broker import TOPIC_ID, Running, image
from tailrace.clock import ManualClock
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.guard import Guard
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.metadata.directories import UNASSIGNED
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace_broker import app
from tailrace_broker.directories.failure import DirWatch

IDS = (UUID(int=101), UUID(int=102))


class Disks:
    """Two disks and a log dir on each."""

    def __init__(self) -> None:
        self.disks = [MemoryFilesystem(), MemoryFilesystem()]
        self.dirs = self.open()

    @staticmethod
    def ids(number: int) -> Iterator[UUID]:
        """The dir's own first, then what deleted partitions are named by."""
        yield IDS[number]
        yield from map(UUID, (f"{at:032x}" for at in count(1000)))

    def open(self) -> list[LogDir]:
        return [
            LogDir.open(Guard(disk), f"/d{n}", node_id=0, cluster_id="c", now_ms=0, new_id=self.ids(n).__next__)
            for n, disk in enumerate(self.disks)
        ]


def metadata(partitions: int = 4, *directories: UUID, configs: dict[str, str] | None = None) -> MetadataImage:
    rows = directories or (UNASSIGNED,) * partitions
    topic = TopicImage("t", TOPIC_ID, tuple(PartitionImage((0,), (0,), 0, 3, 0, directories=(d,)) for d in rows))
    return replace(image(**(configs or {})), topics={"t": topic}, topic_names={TOPIC_ID: "t"}, shards={})


def watch_of(node: Running, lifecycle: Any, clock: ManualClock) -> DirWatch:
    """The watch over the dirs of a broker, as app.py builds it."""
    return app.open_dir_watch(node.broker, lifecycle, replace(node.environment, clock=clock))


class LifecycleTwin:
    """The lifecycle as the watch over dirs sees it."""

    def __init__(self) -> None:
        self.reported: list[UUID] = []
        self.reported_dirs: frozenset[UUID] = frozenset()

    def report_offline(self, directory_id: UUID) -> None:
        self.reported.append(directory_id)

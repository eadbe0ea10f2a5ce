"""What a broker's start says of log directories that held replicas and are not there any more."""

from __future__ import annotations

from uuid import UUID

import structlog

from support.logs import NOW, with_settings
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.metadata.directories import UNASSIGNED
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace_broker.partitions.recovery_report import report_missing

A, GONE, TOPIC_ID = UUID(int=101), UUID(int=103), UUID(int=9)
GONE_TEXT = "AAAAAAAAAAAAAAAAAAAAZw"


def opened(directory_id: UUID = A) -> LogDir:
    return LogDir.open(MemoryFilesystem(), "/logs", node_id=2, cluster_id="c", now_ms=NOW, new_id=lambda: directory_id)


def image(*directories: UUID) -> MetadataImage:
    """A topic with a partition for each, the directory of its replica on broker 2; broker 1's are elsewhere."""
    partitions = tuple(PartitionImage((1, 2), (1, 2), 1, 0, 0, directories=(GONE, one)) for one in directories)
    return MetadataImage(topics={"t": TopicImage("t", TOPIC_ID, partitions)})


def reported(dirs: list[LogDir], known: MetadataImage, node_id: int = 2) -> list[tuple[str, int]]:
    with structlog.testing.capture_logs() as lines:
        report_missing(dirs, known, node_id, structlog.get_logger())
    return [(line["directory_id"], line["replicas"]) for line in lines]


def test_a_directory_that_held_replicas_and_is_missing_is_told_of_once() -> None:
    assert reported([opened()], image(A, GONE, GONE, UNASSIGNED)) == [(GONE_TEXT, 2)]
    assert reported([opened()], image(A, UNASSIGNED)) == []
    assert reported([opened(GONE)], image(GONE)) == []
    assert reported([opened()], image(A), node_id=3) == [], "it has no replica"


def test_what_came_back_in_another_directory_is_not_missed_though_an_old_image_says_so() -> None:
    log_dir = opened()
    log_dir.create("t", 1, TOPIC_ID, with_settings())
    assert reported([log_dir], image(A, GONE)) == []


def test_nothing_is_said_to_be_missing_while_a_directory_cannot_be_read() -> None:
    assert reported([opened(), LogDir.unreadable("/other", OSError("broken"))], image(GONE)) == []

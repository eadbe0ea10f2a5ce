"""What a start finds, said in the log: what an unclean stop left to check, strays, and directories that are missing."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from tailrace.kafka.ids import TopicPartition, format_uuid
from tailrace.log.directory.findings import Stray
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.log import Log
from tailrace.log.segment.segment import LOG_SUFFIX, Segment
from tailrace.metadata.directories import RESERVED, directory_of
from tailrace.metadata.image import MetadataImage

_WORTH_A_LINE = 16 << 20
_HOLES_TOLD = 10


class RecoveryReport:
    """The log lines about what one directory turns out to hold."""

    def __init__(self, log_dir: LogDir, log: FilteringBoundLogger) -> None:
        self._log_dir = log_dir
        self._log = log

    def recovered(self, key: TopicPartition, opened: Log) -> None:
        """A line for each log that was checked, in a thread or at its first use, if that is worth one."""
        log_dir, cut_bytes = self._log_dir, opened.recovery_result.cut_bytes
        # Thousands of lines about next to nothing would cost more than the checks.
        if not cut_bytes and opened.unflushed_bytes < _WORTH_A_LINE and log_dir.remaining_logs_to_recover:
            return
        self._log.info(
            "recovered",
            topic=key[0],
            partition=key[1],
            checked_bytes=opened.unflushed_bytes,
            cut_bytes=cut_bytes,
            remaining_logs_to_recover=log_dir.remaining_logs_to_recover,
            remaining_segments_to_recover=log_dir.tails.remaining_segments,
        )

    def put_aside(self, stray: Stray) -> None:
        """A log that turns out to be another topic's, or no replica of this broker."""
        (topic, partition), why = stray.key, f"{stray.why}: kept, and not read"
        self._log.warning("a log was put aside", topic=topic, partition=partition, path=stray.path, why=why)

    def damaged(self, key: TopicPartition, segment: Segment) -> None:
        """A wrong index, or damaged records."""
        path = segment.path(LOG_SUFFIX)
        if not segment.holes:
            self._log.warning("an index was wrong and is made again", topic=key[0], partition=key[1], path=path)
        for hole in segment.holes[:_HOLES_TOLD]:
            self._log.error(
                "records are damaged: they are answered CORRUPT_MESSAGE, those behind them are served",
                topic=key[0],
                partition=key[1],
                path=path,
                position=hole.position,
                first_offset=hole.first_offset,
                next_offset=hole.next_offset,
            )

    def mended(self, name: str) -> None:
        """A checkpoint of the directory, or of a log in it."""
        self._log.warning("a checkpoint was damaged and is put right", log_dir=self._log_dir.path, file=name)

    def unclean_stop(self) -> None:
        """How many logs must be checked, and what a failed disk has read from it again."""
        log_dir = self._log_dir
        if log_dir.last_shutdown.failure:
            self._log.warning(
                "the disk failed before this start: what no flush had covered is read from it again",
                log_dir=log_dir.path,
                why=log_dir.last_shutdown.failure,
                bytes=log_dir.last_shutdown.reread_bytes,
            )
        if log_dir.remaining_logs_to_recover:
            tails = log_dir.tails
            self._log.warning(
                "the last stop was not clean: long tails are checked in threads, other logs when first used",
                log_dir=log_dir.path,
                remaining_logs_to_recover=log_dir.remaining_logs_to_recover,
                long_tails=len(tails.waiting),
                bytes=sum(tail.size_bytes for tail in tails.waiting.values()),
                remaining_segments_to_recover=tails.remaining_segments,
            )


def report_recovery(dirs: list[LogDir], log: FilteringBoundLogger) -> None:
    """Logs what the start found in each directory, and what is found from now on."""
    for log_dir in dirs:
        report = RecoveryReport(log_dir, log)
        log_dir.findings.subscribe(report)
        report.unclean_stop()


def report_missing(dirs: list[LogDir], image: MetadataImage, node_id: int, log: FilteringBoundLogger) -> None:
    """Each log directory that held replicas and is not among these: what is copied again may fill the wrong disk."""
    ids = {log_dir.directory_id for log_dir in dirs}
    if not all(one.int for one in ids):
        return  # the one that cannot be read may be it
    here = {place for log_dir in dirs if log_dir.failure is None for place in log_dir.partitions()}
    missing = Counter[UUID]()
    for name, topic in image.topics.items():
        for index, partition in enumerate(topic.partitions):
            lay_in = directory_of(partition, node_id)
            if lay_in is not None and lay_in not in ids | RESERVED and (name, index) not in here:
                missing[lay_in] += 1
    for directory_id, replicas in missing.items():
        log.warning(
            "a log directory with replicas is missing, what others have of it is copied again: is its disk mounted?",
            directory_id=format_uuid(directory_id),
            replicas=replicas,
        )

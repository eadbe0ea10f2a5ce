"""What a start finds, said in the log: what an unclean stop left to check, strays, and directories that are missing."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from tailrace.kafka.ids import format_uuid
from tailrace.log.directory.log_dir import LogDir, Stray
from tailrace.log.log import Log
from tailrace.log.segment.segment import LOG_SUFFIX, Segment
from tailrace.metadata.directories import RESERVED, directory_of
from tailrace.metadata.image import MetadataImage

_WORTH_A_LINE = 16 << 20
_HOLES_TOLD = 10


def tell_recovery(dirs: list[LogDir], log: Any) -> None:
    """After an unclean stop: how many logs must be checked, and each that was, as that is done in a thread or at its
    first use.

    Also each log that turns out to be another topic's, and what is damaged.
    """

    def tell(log_dir: LogDir) -> None:
        def on_recovered(key: tuple[str, int], opened: Log) -> None:
            # Thousands of lines about next to nothing would cost more than the checks.
            cut_bytes = opened.recovery_result.cut_bytes
            if not cut_bytes and opened.unflushed_bytes < _WORTH_A_LINE and log_dir.remaining_logs_to_recover:
                return
            log.info(
                "recovered",
                topic=key[0],
                partition=key[1],
                checked_bytes=opened.unflushed_bytes,
                cut_bytes=cut_bytes,
                remaining_logs_to_recover=log_dir.remaining_logs_to_recover,
                remaining_segments_to_recover=log_dir.tails.remaining_segments,
            )

        def on_stray(stray: Stray) -> None:
            (topic, partition), why = stray.key, f"{stray.why}: kept, and not read"
            log.warning("a log was put aside", topic=topic, partition=partition, path=stray.path, why=why)

        def on_damage(key: tuple[str, int], segment: Segment) -> None:
            path = segment.path(LOG_SUFFIX)
            if not segment.holes:
                log.warning("an index was wrong and is made again", topic=key[0], partition=key[1], path=path)
            for hole in segment.holes[:_HOLES_TOLD]:
                log.error(
                    "records are damaged: they are answered CORRUPT_MESSAGE, those behind them are served",
                    topic=key[0],
                    partition=key[1],
                    path=path,
                    position=hole.position,
                    first_offset=hole.first_offset,
                    next_offset=hole.next_offset,
                )

        def on_mended(name: str) -> None:
            log.warning("a checkpoint was damaged and is put right", log_dir=log_dir.path, file=name)

        log_dir.on_recovered, log_dir.on_stray, log_dir.on_damage = on_recovered, on_stray, on_damage
        log_dir.on_mended = on_mended
        for name in log_dir.mended:
            on_mended(name)
        for stray in log_dir.strays:
            on_stray(stray)
        if log_dir.last_shutdown.failure:
            log.warning(
                "the disk failed before this start: what no flush had covered is read from it again",
                log_dir=log_dir.path,
                why=log_dir.last_shutdown.failure,
                bytes=log_dir.last_shutdown.reread_bytes,
            )
        if log_dir.remaining_logs_to_recover:
            tails = log_dir.tails
            log.warning(
                "the last stop was not clean: long tails are checked in threads, other logs when first used",
                log_dir=log_dir.path,
                remaining_logs_to_recover=log_dir.remaining_logs_to_recover,
                long_tails=len(tails.waiting),
                bytes=sum(tail.size_bytes for tail in tails.waiting.values()),
                remaining_segments_to_recover=tails.remaining_segments,
            )

    for log_dir in dirs:
        tell(log_dir)


def tell_missing(dirs: list[LogDir], image: MetadataImage, node_id: int, log: Any) -> None:
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

"""DescribeLogDirs v1-5 (KIP-113). v3: top-level error. v4: total and usable bytes (KIP-827). v5: cordoned (KIP-1066).

A dir that is offline, also one that could not be read at the start, is KAFKA_STORAGE_ERROR without partitions. A
replica that is moved between dirs (AlterReplicaLogDirs) is listed twice: where it serves, and with is_future_key and
what the copy still lacks as its lag where it goes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.errors import ErrorCode
from tailrace.net.context import Context
from tailrace.net.limits.answer_budget import AnswerBudget, text_bytes
from tailrace.wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse

if TYPE_CHECKING:
    from tailrace.log.directory.log_dir import LogDir
    from tailrace_broker.directories.moves import DirMoves, Move
    from tailrace_broker.directories.storage import Storage
    from tailrace_broker.partitions.topics import Topics

_Dir = DescribeLogDirsResponse.DescribeLogDirsResult
_Topic = _Dir.DescribeLogDirsTopic
_Row = _Topic.DescribeLogDirsPartition
_UNKNOWN_BYTES = -1
_ROW_BYTES = 24  # of one partition; at most so many for a topic, short of its name


async def handle(
    request: DescribeLogDirsRequest, context: Context, topics: Topics, storage: Storage, dir_moves: DirMoves
) -> DescribeLogDirsResponse:
    """One entry per log dir; null topics means all, an empty list means none.

    MESSAGE_TOO_LARGE for a log dir that the answer has no room for.
    """
    wanted = None
    if request.topics is not None:
        wanted = _here(request.topics, storage)
    lags = {(p.topic, p.index): p.lag async for p in topics.each()}
    results, budget = [], AnswerBudget()
    for log_dir, places in storage.placed():
        await _look(log_dir, places if wanted is None else wanted)
        asked = [(place, lags.get(place, 0)) for place in places if wanted is None or place in wanted]
        try:
            log_dir.guard.check()
            coming = [
                move
                for move in dir_moves.moves.values()
                if move.target is log_dir
                and move.left is None
                and (wanted is None or (move.partition.topic, move.partition.index) in wanted)
            ]
            if budget.take(_size_bytes(asked, coming)):
                results.append(_describe(log_dir, asked, coming))
            else:
                results.append(_refused(log_dir, ErrorCode.MESSAGE_TOO_LARGE))
        except OSError as failed:
            log_dir.guard.note(failed)
            results.append(_refused(log_dir, ErrorCode.KAFKA_STORAGE_ERROR))
    return DescribeLogDirsResponse(error_code=0, results=results)


def _here(topics: list[DescribeLogDirsRequest.DescribableLogDirTopic], storage: Storage) -> set[tuple[str, int]]:
    """What of it lies in any log dir."""
    here = {place for _, places in storage.placed() for place in places}
    return here.intersection((topic.topic, index) for topic in topics for index in topic.partitions)


async def _look(log_dir: LogDir, places: Iterable[tuple[str, int]]) -> None:
    """Sizes of logs that nobody uses are looked up, once, in a thread: there may be thousands."""
    with suppress(OSError):  # as what it is answered is told below
        log_dir.guard.check()
        await asyncio.to_thread(log_dir.begin_look(places))


def _size_bytes(places: list[tuple[tuple[str, int], int]], coming: list[Move]) -> int:
    topics = {topic for (topic, _), _ in places} | {move.partition.topic for move in coming}
    return _ROW_BYTES * (len(places) + len(coming) + len(topics)) + sum(map(text_bytes, topics))


def _describe(log_dir: LogDir, places: list[tuple[tuple[str, int], int]], coming: list[Move]) -> _Dir:
    topics: dict[str, list[_Row]] = {}
    for (topic, index), lag in places:
        size = log_dir.size_bytes(topic, index)
        row = _Row(partition_index=index, partition_size=size, offset_lag=lag, is_future_key=False)
        topics.setdefault(topic, []).append(row)
    for move in coming:
        index, size = move.partition.index, move.size_bytes
        row = _Row(partition_index=index, partition_size=size, offset_lag=move.lag, is_future_key=True)
        topics.setdefault(move.partition.topic, []).append(row)
    total_bytes, usable_bytes = _room(log_dir.path)
    return _Dir(
        error_code=0,
        log_dir=log_dir.path,
        topics=[_Topic(name=name, partitions=rows) for name, rows in topics.items()],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )


def _room(path: str) -> tuple[int, int]:
    """(total, usable) bytes of the file system; unknown for a directory that somebody took away."""
    try:
        disk = os.statvfs(path)
    except FileNotFoundError:
        return _UNKNOWN_BYTES, _UNKNOWN_BYTES
    return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize


def _refused(log_dir: LogDir, code: ErrorCode) -> _Dir:
    return _Dir(
        error_code=int(code),
        log_dir=log_dir.path,
        topics=[],
        total_bytes=_UNKNOWN_BYTES,
        usable_bytes=_UNKNOWN_BYTES,
    )

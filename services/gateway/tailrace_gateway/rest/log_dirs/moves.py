"""Replicas that move between the log dirs of one broker: AlterReplicaLogDirs v2 and DescribeLogDirs v4 (KIP-113)."""

from __future__ import annotations

from typing import Any, NamedTuple

from tailrace.errors import ErrorCode
from tailrace.metadata.moves import Partition
from tailrace.wire.messages import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.errors import check

_ALTER_VERSION = 2
_DESCRIBE_VERSION = 4
_SENTENCES = {
    ErrorCode.LOG_DIR_NOT_FOUND: "{path} is none of the broker's log.dirs.",
    ErrorCode.KAFKA_STORAGE_ERROR: "{path}, or the log directory that the replica lies in, is offline.",
}


class LogDirMove(NamedTuple):
    """One replica's way; offset_lag counts the records that the copy lacks, total_bytes is the original's size."""

    source: str
    target: str
    copied_bytes: int
    total_bytes: int
    offset_lag: int


async def moving(backend: AdminBackend, broker_id: int, asked: Partition | None = None) -> dict[Partition, LogDirMove]:
    """The replicas that a broker moves now, or the one that is asked for if it moves."""
    topics = None
    if asked is not None:
        name, index = asked
        topics = [DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=[index])]
    answer = await backend.ask_broker(broker_id, DescribeLogDirsRequest(topics=topics), _DESCRIBE_VERSION)
    rows = [
        ((topic.name, part.partition_index), result.log_dir, part)
        for result in answer.results
        for topic in result.topics
        for part in topic.partitions
    ]
    present = {key: (path, part) for key, path, part in rows if not part.is_future_key}
    coming = {key: (path, part) for key, path, part in rows if part.is_future_key}
    return {key: _move(present[key], coming[key]) for key in sorted(present.keys() & coming.keys())}


def _move(present: tuple[str, Any], coming: tuple[str, Any]) -> LogDirMove:
    (source, original), (target, copy) = present, coming
    return LogDirMove(source, target, copy.partition_size, original.partition_size, copy.offset_lag)


async def begin(backend: AdminBackend, broker_id: int, partition: Partition, path: str) -> None:
    """Begins a move; to the dir that the replica lies in it gives up what is on its way, as in Kafka."""
    name, index = partition
    one = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    wanted = one(path=path, topics=[one.AlterReplicaLogDirTopic(name=name, partitions=[index])])
    answer = await backend.ask_broker(broker_id, AlterReplicaLogDirsRequest(dirs=[wanted]), _ALTER_VERSION)
    for result in answer.results:
        for row in result.partitions:
            sentence = _SENTENCES.get(ErrorCode(row.error_code))
            check(row.error_code, sentence and sentence.format(path=path))

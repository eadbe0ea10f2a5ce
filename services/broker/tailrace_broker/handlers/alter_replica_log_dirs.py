"""AlterReplicaLogDirs v1-2 (KIP-113): moves replicas between the log dirs of the broker that is asked.

The answer says that the moves have begun; DescribeLogDirs shows how far they are (is_future_key).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from tailrace_broker.handlers.rows import each_row

if TYPE_CHECKING:
    from tailrace_broker.directories.moves import DirMoves
    from tailrace_broker.directories.storage import Storage
    from tailrace_broker.partitions.topics import Topics

_Topic = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
_Row = _Topic.AlterReplicaLogDirPartitionResult
_LONGEST_NAME = 255
_FUTURE_NAME = len("-.-future") + 32


async def handle(
    request: AlterReplicaLogDirsRequest, context: Context, topics: Topics, storage: Storage, dir_moves: DirMoves
) -> AlterReplicaLogDirsResponse:
    """Each partition has its own error; topics come in the order they were asked.

    Of a partition that is named more than once the last place counts.
    """
    paths: dict[str, dict[int, str]] = {}  # by topic
    for asked in request.dirs:
        for topic in asked.topics:
            paths.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, asked.path))
    results = [
        _Topic(
            topic_name=name,
            partitions=[
                _Row(partition_index=index, error_code=int(_move(topics, storage, dir_moves, path, name, index)))
                async for index, path in each_row(rows.items())
            ],
        )
        for name, rows in paths.items()
    ]
    return AlterReplicaLogDirsResponse(results=results)


def _move(topics: Topics, storage: Storage, dir_moves: DirMoves, path: str, topic: str, index: int) -> ErrorCode:
    """Kafka's order of checks."""
    if len(f"{topic}{index}") + _FUTURE_NAME > _LONGEST_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    log_dir = storage.named(path)
    if log_dir is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if log_dir.failure is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    row = topics.by_name.get(topic.encode())
    if row is None or not 0 <= index < len(row.image.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = row.partitions.get(index)
    if partition is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if partition.offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if partition.recovering:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    dir_moves.move(partition, log_dir)
    return ErrorCode.NONE

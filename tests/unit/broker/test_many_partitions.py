"""Requests about many partitions whose logs are opened for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.broker import running
from support.log_dirs import metadata
from tailrace.errors import ErrorCode
from tailrace.wire.messages import (
    AlterReplicaLogDirsRequest,
    DeleteRecordsRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)

PARTITIONS = 200
ASKED = [*range(PARTITIONS), 10_000]  # and one that there is not


def delete_records() -> Any:
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    rows = [topic.DeleteRecordsPartition(partition_index=index, offset=0) for index in ASKED]
    return DeleteRecordsRequest(topics=[topic(name="t", partitions=rows)], timeout_ms=1000)


def offset_for_leader_epoch() -> Any:
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    rows = [topic.OffsetForLeaderPartition(partition=index, current_leader_epoch=-1, leader_epoch=0) for index in ASKED]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic(topic="t", partitions=rows)])


def alter_replica_log_dirs() -> Any:
    log_dir = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    topic = log_dir.AlterReplicaLogDirTopic(name="t", partitions=ASKED)
    return AlterReplicaLogDirsRequest(dirs=[log_dir(path="/nowhere", topics=[topic])])


def list_offsets() -> Any:
    topic = ListOffsetsRequest.ListOffsetsTopic
    rows = [topic.ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=-1) for index in ASKED]
    return ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic(name="t", partitions=rows)])


@pytest.mark.parametrize(
    ("request_of", "version", "rows_of", "code"),
    [
        (delete_records, 2, lambda answer: answer.topics[0].partitions, ErrorCode.NONE),
        (offset_for_leader_epoch, 4, lambda answer: answer.topics[0].partitions, ErrorCode.NONE),
        (alter_replica_log_dirs, 2, lambda answer: answer.results[0].partitions, ErrorCode.LOG_DIR_NOT_FOUND),
        (list_offsets, 6, lambda answer: answer.topics[0].partitions, ErrorCode.NONE),
    ],
    ids=["DeleteRecords", "OffsetForLeaderEpoch", "AlterReplicaLogDirs", "ListOffsets"],
)
async def test_every_partition_has_its_answer_in_its_place(
    tmp_path: Path,
    request_of: Callable[[], Any],
    version: int,
    rows_of: Callable[[Any], Any],
    code: ErrorCode,
) -> None:
    async with running(tmp_path, metadata(PARTITIONS)) as node:
        answer = await node.service.ask(request_of(), timeout_ms=60_000, version=version)
        found = {getattr(row, "partition_index", None) or getattr(row, "partition", 0): row for row in rows_of(answer)}
        assert list(found) == ASKED
        absent = code if request_of is alter_replica_log_dirs else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [row.error_code for row in found.values()] == [code] * PARTITIONS + [absent]

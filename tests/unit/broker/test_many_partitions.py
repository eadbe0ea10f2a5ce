"""Requests about very many partitions: others have their turn in between, and every partition its answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.broker import Running, batch, running
from support.log_dirs import metadata
from support.steps import steps
from tailrace.errors import ErrorCode
from tailrace.net import pieces
from tailrace.net.context import Context
from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.encode_buffer import EncodeBuffer
from tailrace.wire.messages import (
    AlterReplicaLogDirsRequest,
    DeleteRecordsRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from tailrace_broker.handlers import list_offsets as list_offsets_handler

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


def latest(asked: list[int]) -> Any:
    topic = ListOffsetsRequest.ListOffsetsTopic
    rows = [topic.ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=-1) for index in asked]
    return ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic(name="t", partitions=rows)])


def list_offsets() -> Any:
    return latest(ASKED)


def turns_given(node: Running, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows whenever others have their turn."""
    turns, really = list[int](), node.broker.others_first

    def others_first() -> Any:
        turns.append(1)
        return really()

    node.broker.others_first = others_first  # type: ignore[assignment]
    monkeypatch.setattr(pieces, "others_first", others_first)
    return turns


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
async def test_others_have_their_turn_while_logs_are_used_for_the_first_time(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    request_of: Callable[[], Any],
    version: int,
    rows_of: Callable[[Any], Any],
    code: ErrorCode,
) -> None:
    async with running(tmp_path, metadata(PARTITIONS)) as node:
        turns = turns_given(node, monkeypatch)
        answer = await node.service.ask(request_of(), timeout_ms=30_000, version=version)
        found = {getattr(row, "partition_index", None) or getattr(row, "partition", 0): row for row in rows_of(answer)}
        assert list(found) == ASKED
        absent = code if request_of is alter_replica_log_dirs else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [row.error_code for row in found.values()] == [code] * PARTITIONS + [absent]
        assert len(turns) >= PARTITIONS // 50


async def test_the_ends_of_logs_that_are_open_are_told_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with running(tmp_path, metadata(PARTITIONS)) as node:
        asked = list(range(PARTITIONS))
        await node.service.ask(latest(asked), timeout_ms=30_000, version=6)
        assert (await node.produce(PARTITIONS - 1, batch(b"a"))).error_code == 0
        turns = turns_given(node, monkeypatch)
        answer = await node.service.ask(latest(asked), timeout_ms=30_000, version=6)
        assert [row.offset for row in answer.topics[0].partitions] == [0] * (PARTITIONS - 1) + [1]
        assert not turns


class Turn:
    """What a coroutine gives up for others, driven by hand."""

    def __await__(self) -> Any:
        yield


async def test_no_turn_of_a_long_request_for_offsets_is_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with running(tmp_path, metadata(1)) as node:
        node.broker.others_first = Turn  # type: ignore[assignment]
        monkeypatch.setattr(pieces, "others_first", Turn)
        context = Context(ApiKey.LIST_OFFSETS, 7, 1, "client", None)  # type: ignore[arg-type]
        answering = list_offsets_handler.handle(latest(list(range(10_000, 15_000))), context, node.broker)
        turns, ended = list[int](), list[EncodeBuffer]()

        def turn() -> None:
            try:
                answering.send(None)
            except StopIteration as end:
                ended.append(end.value)

        while not ended:
            turns.append(steps(turn))
        answer = codec.decode_response(ApiKey.LIST_OFFSETS, 7, ended[0].body)
        assert {row.error_code for row in answer.topics[0].partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert max(turns) < sum(turns) / 7


async def test_others_have_their_turn_among_many_topics_of_one_partition_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"nobody-{n}" for n in range(1_000)]
    deleted = DeleteRecordsRequest.DeleteRecordsTopic
    row = deleted.DeleteRecordsPartition(partition_index=0, offset=0)
    asked = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    want = asked.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    requests = [
        (DeleteRecordsRequest(topics=[deleted(name=n, partitions=[row]) for n in names], timeout_ms=1_000), 2),
        (OffsetForLeaderEpochRequest(topics=[asked(topic=n, partitions=[want]) for n in names]), 4),
    ]
    async with running(tmp_path) as node:
        turns = turns_given(node, monkeypatch)
        for request, version in requests:
            turns.clear()
            answer = await node.service.ask(request, timeout_ms=30_000, version=version)
            assert len(answer.topics) == len(names)
            assert len(turns) >= len(names) // 50

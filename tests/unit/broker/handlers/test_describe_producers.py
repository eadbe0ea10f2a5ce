"""DescribeProducers (KIP-664): what a partition's replicas remember of those who wrote to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.broker import Running, batch, running
from support.logs import NOW
from support.transactions import data_batch, marker_batch
from tailrace.errors import ErrorCode
from tailrace.records.markers import COMMIT
from tailrace.wire.messages import DescribeProducersRequest

LONG_NAME = "x" * 250
LEGAL = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


async def ask(broker: Running, *topics: tuple[str, list[int]]) -> list[tuple[str, list[Any]]]:
    topic = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(topics=[topic(name=name, partition_indexes=rows) for name, rows in topics])
    answer = await broker.client.ask(request, timeout_ms=60_000)
    assert answer.throttle_time_ms == 0
    return [(found.name, list(found.partitions)) for found in answer.topics]


async def producers(broker: Running, partition: int = 0) -> list[tuple[int, ...]]:
    """(id, epoch, last sequence, last timestamp, coordinator epoch, transaction's start) of each, by id."""
    ((_, (row,)),) = await ask(broker, ("t", [partition]))
    assert (row.partition_index, row.error_code, row.error_message) == (partition, 0, None)
    return sorted(
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.coordinator_epoch,
            one.current_txn_start_offset,
        )
        for one in row.active_producers
    )


def idempotent(producer_id: int, epoch: int, sequence: int, *values: bytes, timestamp: int = NOW) -> bytes:
    return batch(*values, timestamp=timestamp, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


async def test_every_producer_is_told_with_its_last_batch(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        assert await producers(broker) == []
        await broker.produce(0, batch(b"not idempotent"), idempotent(2**40, 3, 0, b"a", b"b"))
        await broker.produce(0, idempotent(7, 0, 5, b"a"), idempotent(2**40, 3, 2, b"c", timestamp=NOW + 9))
        assert await producers(broker) == [(7, 0, 5, NOW, -1, -1), (2**40, 3, 2, NOW + 9, -1, -1)]
        assert await producers(broker, 1) == []
        await broker.produce(0, idempotent(7, 1, 0, b"a"))
        assert (await producers(broker))[0] == (7, 1, 0, NOW, -1, -1)


async def test_a_transaction_is_told_by_its_start_until_it_ends(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = broker.broker.topics.led("t", 0)

        def write(data: bytearray) -> None:
            (answer,) = partition.append([memoryview(data)], NOW, from_client=False)
            assert not answer.error_code

        await broker.produce(0, batch(b"before"))
        write(data_batch(8, b"a", b"b", epoch=2))
        assert await producers(broker) == [(8, 2, 1, NOW, -1, 1)]
        write(marker_batch(8, COMMIT, epoch=2, coordinator_epoch=6))
        assert await producers(broker) == [(8, 2, 1, NOW, 6, -1)]
        write(marker_batch(9, COMMIT, coordinator_epoch=6))  # of a transaction that wrote nothing here
        assert await producers(broker) == [(8, 2, 1, NOW, 6, -1), (9, 0, -1, NOW, 6, -1)]


async def test_who_expires_is_told_no_more(tmp_path: Path) -> None:
    async with running(tmp_path, producer_id_expiration_ms="1000") as broker:
        await broker.produce(0, idempotent(7, 0, 0, b"old"), idempotent(8, 0, 0, b"new", timestamp=NOW + 1000))
        assert [one[0] for one in await producers(broker)] == [7, 8]
        (log_dir,) = broker.broker.storage.dirs
        log_dir.retention.apply(NOW + 1000)
        assert [one[0] for one in await producers(broker)] == [7, 8]
        log_dir.retention.apply(NOW + 2000)
        assert [one[0] for one in await producers(broker)] == [8]


async def test_an_expiration_that_is_set_while_the_broker_runs_holds_for_every_log(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, idempotent(7, 0, 0, b"a"))
        (log_dir,) = broker.broker.storage.dirs
        broker.follower.move(configs={(4, ""): {"producer.id.expiration.ms": "5"}})
        log_dir.retention.apply(NOW + 5)
        log_dir.retention.apply(NOW + 9)
        assert [one[0] for one in await producers(broker)] == [7]
        log_dir.retention.apply(NOW + 10)
        assert await producers(broker) == []
        broker.follower.move(configs={(4, ""): {"producer.id.expiration.ms": "9"}})
        assert broker.broker.topics.led("t", 1).log.producer_id_expiration_ms == 9  # opened after that


@pytest.mark.parametrize(
    ("name", "partition", "code", "message"),
    [
        ("t", 2, ErrorCode.NOT_LEADER_OR_FOLLOWER, None),
        ("t", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        ("t", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        ("u", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        ("", 0, ErrorCode.INVALID_TOPIC_EXCEPTION, "the empty string is not allowed"),
        ("..", 0, ErrorCode.INVALID_TOPIC_EXCEPTION, "'..' is not allowed"),
        ("a/b", 0, ErrorCode.INVALID_TOPIC_EXCEPTION, f"'a/b' {LEGAL}"),
        (
            LONG_NAME,
            0,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"the length of '{LONG_NAME}' is longer than the max allowed length 249",
        ),
    ],
)
async def test_what_is_not_here_is_refused_as_kafka_refuses_it(
    tmp_path: Path, name: str, partition: int, code: ErrorCode, message: str | None
) -> None:
    async with running(tmp_path) as broker:
        ((found, rows),) = await ask(broker, (name, [partition, partition + 100]))
        assert (found, [row.partition_index for row in rows]) == (name, [partition, partition + 100])
        told = f"Topic name is invalid: {message}" if code == ErrorCode.INVALID_TOPIC_EXCEPTION else message
        assert (rows[0].error_code, rows[0].error_message, rows[0].active_producers) == (code, told, [])
        assert rows[1].error_code == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name == "t" else code)


async def test_a_disk_that_cannot_be_read_is_a_storage_error_of_its_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:

        def fail() -> Any:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(broker.broker.topics.led("t", 0), "_open_log", fail)
        ((_, rows),) = await ask(broker, ("t", [0, 1]))
        assert [row.error_code for row in rows] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]


async def test_the_answer_is_never_larger_than_what_is_remembered(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.produce(0, idempotent(7, 0, 0, b"a"))
        (first, second) = await ask(broker, ("t", [0, 1, 0]), ("u", []), ("t", [0, 1]))
        assert (first[0], [(row.partition_index, len(row.active_producers)) for row in first[1]]) == (
            "t",
            [(0, 1), (1, 0)],
        )
        assert second == ("u", [])
        assert await ask(broker) == []


async def test_the_sentences_of_refused_partitions_take_no_more_than_a_mebibyte(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        ((_, rows),) = await ask(broker, ("n" * 32_000, list(range(5_000))))
        assert {row.error_code for row in rows} == {ErrorCode.INVALID_TOPIC_EXCEPTION}
        assert sum(len(row.error_message.encode()) for row in rows if row.error_message) <= 1 << 20

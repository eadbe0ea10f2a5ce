"""DescribeOpenTransactions: what is open in partitions led here, the worst first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.broker import Running, running
from support.transactions import data_batch, marker_batch
from tailrace.records.markers import ABORT
from tailrace.records.record import Record, build
from tailrace.wire.messages import DescribeOpenTransactionsRequest


def write(broker: Running, partition: int, *batches: bytearray) -> None:
    """As a coordinator."""
    led = broker.broker.topics.led("t", partition)
    answers = led.append([memoryview(data) for data in batches], 1000, from_client=False)
    assert not any(answer.error_code for answer in answers), answers
    broker.broker.wakeups.appended(led)


def of_now(broker: Running, producer_id: int) -> bytearray:
    record = Record(timestamp=int(broker.environment.clock.wall_ms()), value=b"v")
    return build([record], producer_id=producer_id, producer_epoch=2, base_sequence=0, transactional=True)


async def told(broker: Running, most: int = 100) -> list[tuple[Any, ...]]:
    answer = await broker.service.ask(DescribeOpenTransactionsRequest(transactions_max=most), timeout_ms=60_000)
    assert answer.error_code == 0
    return [
        (row.topic_name, row.partition_index, row.producer_id, row.producer_epoch, row.start_offset, row.is_late)
        for row in answer.transactions
    ]


async def test_open_transactions_are_told_late_ones_first(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        assert await told(broker) == []
        write(broker, 0, of_now(broker, 8), data_batch(9), marker_batch(9, ABORT))
        write(broker, 1, data_batch(8), data_batch(7))  # of 2023
        late = [("t", 1, 8, 0, 0, True), ("t", 1, 7, 0, 1, True)]
        assert await told(broker) == [*late, ("t", 0, 8, 2, 0, False)]
        assert await told(broker, 2) == late
        assert await told(broker, -1) == []
        write(broker, 1, marker_batch(8, ABORT))
        assert await told(broker, 1) == late[1:]


async def test_what_another_broker_leads_is_not_told(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        write(broker, 0, data_batch(8))
        partition = broker.broker.topics.led("t", 0)
        partition.leader = 1
        assert await told(broker) == []

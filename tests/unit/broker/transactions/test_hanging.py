"""Late transactions hang where no coordinator has them open; what cannot be known changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.net.client import Disconnected
from tailrace.runtime.clock import SystemClock
from tailrace.wire import messages as m
from tailrace_broker.transactions.hanging import HangingTransactions
from tailrace_broker.transactions.open_transactions import OpenTransaction, Place

FIRST, SECOND = Address("first", 1), Address("second", 2)


def opened(producer_id: int, partition: int = 0, *, is_late: bool = True) -> OpenTransaction:
    return OpenTransaction(Place("t", partition, producer_id), 0, 5, 1_000, is_late)


class Coordinators:
    """Two of them; `transactions` of the second one: transactional id -> (producer id, state, partitions of t)."""

    def __init__(self) -> None:
        self.transactions: dict[str, tuple[int, str, list[int]]] = {}
        self.asked: list[Any] = []
        self.failure: Exception | None = None
        self.error_code = 0
        self.described_codes: dict[int, int] = {}  # by producer id

    def owners(self) -> list[Address]:
        if self.failure is not None:
            raise self.failure
        return [FIRST, SECOND]

    async def forward(self, address: Address, message: m.ApiMessage) -> Any:
        self.asked.append(message)
        mine = self.transactions if address == SECOND else {}
        if isinstance(message, m.ListTransactionsRequest):
            rows = [
                SimpleNamespace(transactional_id=name, transaction_state=state)
                for name, (producer_id, state, _) in mine.items()
                if producer_id in message.producer_id_filters
            ]
            return SimpleNamespace(error_code=self.error_code, transaction_states=rows)
        assert isinstance(message, m.DescribeTransactionsRequest)
        described = [mine[name] for name in message.transactional_ids]
        return SimpleNamespace(
            transaction_states=[
                SimpleNamespace(error_code=code, transactional_id="", transaction_state="")
                if (code := self.described_codes.get(producer_id, 0))
                else SimpleNamespace(
                    error_code=0,
                    producer_id=producer_id,
                    transaction_state=state,
                    topics=[SimpleNamespace(topic="t", partitions=partitions)],
                )
                for producer_id, state, partitions in described
            ]
        )


class Stage:
    def __init__(self, *rows: OpenTransaction) -> None:
        self.rows = list(rows)
        self.coordinators = Coordinators()
        self.hanging = HangingTransactions(self.opened, self.coordinators, SystemClock())

    async def opened(self) -> AsyncIterator[list[OpenTransaction]]:
        yield self.rows

    async def found(self) -> list[tuple[int, int]]:
        await self.hanging.look()
        return sorted((place.producer_id, place.partition) for place in self.hanging.found)


async def test_a_late_transaction_that_no_coordinator_has_open_there_hangs() -> None:
    stage = Stage(opened(1), opened(2), opened(3), opened(4, is_late=False), opened(5), opened(5, partition=1))
    stage.coordinators.transactions = {
        "ongoing": (2, "Ongoing", [0]),
        "ended": (3, "CompleteAbort", [0]),
        "elsewhere": (5, "PrepareCommit", [1]),
    }
    assert await stage.found() == [(1, 0), (3, 0), (5, 0)]
    assert stage.hanging.by_partition() == [("t", 0, 3)]


async def test_nobody_is_asked_while_nothing_is_late_and_what_hung_is_over() -> None:
    stage = Stage(opened(1))
    assert await stage.found() == [(1, 0)]
    stage.rows, stage.coordinators.asked = [opened(2, is_late=False)], []
    assert await stage.found() == []
    assert stage.coordinators.asked == []


async def test_while_a_coordinator_cannot_tell_nothing_changes() -> None:
    stage = Stage(opened(1))
    for failure in (Disconnected("away"), TimeoutError()):
        stage.coordinators.failure = failure
        assert await stage.found() == []
    stage.coordinators.failure = None
    assert await stage.found() == [(1, 0)]
    stage.rows.append(opened(2))
    stage.coordinators.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await stage.found() == [(1, 0)]


async def test_a_transaction_that_its_coordinator_cannot_describe_may_be_open() -> None:
    stage = Stage(opened(1), opened(2))
    stage.coordinators.transactions = {"one": (1, "PrepareCommit", [0]), "other": (2, "Ongoing", [0])}
    stage.coordinators.described_codes = {1: ErrorCode.NOT_COORDINATOR}
    assert await stage.found() == []
    stage.coordinators.described_codes = {1: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}  # gone since it was listed
    assert await stage.found() == [(1, 0)]

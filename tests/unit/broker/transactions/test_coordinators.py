"""Questions about transactions' partitions share requests, up to what one request may have."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tailrace.net.address import Address
from tailrace.net.metadata.follower import MetadataFollower
from tailrace.wire.messages import AddPartitionsToTxnResponse
from tailrace_broker.transactions import coordinators
from tailrace_broker.transactions.add_partitions import Answers, Asked
from tailrace_broker.transactions.coordinators import Coordinators, Question


class Follower:
    image = None


async def test_the_questions_of_one_request_have_no_more_partitions_than_it_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[int]] = []

    class Way:
        def __init__(self, *given: Any, **named: Any) -> None: ...

        async def ask(self, request: Any, timeout_ms: float) -> AddPartitionsToTxnResponse:
            asked.append([len(one.topics[0].partitions) for one in request.transactions])
            return AddPartitionsToTxnResponse(error_code=0, results_by_transaction=[])

    monkeypatch.setattr(coordinators, "Client", Way)
    monkeypatch.setattr(coordinators, "shard_of", lambda *given: 0)
    monkeypatch.setattr(coordinators, "coordinators", lambda *given: ())
    monkeypatch.setattr(Coordinators, "owner", lambda *given: Address("coordinator", 1))
    answered: asyncio.Queue[Answers] = asyncio.Queue()
    several = Coordinators(cast("MetadataFollower", Follower()), "boot", None, 1_000)
    for number, count in enumerate((1, 6_000, 4_000, 10_000, 5_000, 5_000)):
        partitions = tuple(("t", index) for index in range(count))
        several.ask(Question(Asked(f"id-{number}", number, 0, False), partitions, answered.put_nowait))
    for _ in range(6):
        await answered.get()
    assert sum(map(sum, asked)) == 30_001
    assert max(map(sum, asked)) == 10_000
    assert len(asked) < 6

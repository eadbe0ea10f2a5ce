"""Produce of transactions (KIP-890): verified or added at the coordinator once, in order, with Kafka's errors."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.broker import TOPIC_ID, Running, batch, topic
from support.stub_coordinator import (
    ID,
    StubCoordinator,
    data,
    marker,
    produce,
    produce_request,
    with_coordinator,
    write_markers,
)
from tailrace.errors import ErrorCode
from tailrace_broker.produce import verification

E = ErrorCode
BOTH = pytest.mark.parametrize("version", [7, 11, 12, 13])


@BOTH
async def test_the_first_batch_asks_and_the_next_ones_do_not(tmp_path: Path, version: int) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        for sequence in range(3):
            row = await produce(broker, data(sequence=sequence), version=version)
            assert (row.error_code, row.base_offset) == (0, sequence)
        assert stub.asked == [(ID, 7, 0, version < 12, [("t", 0)])]
        assert await write_markers(broker, marker()) == [{("t", 0): 0}]
        row = await produce(broker, data(sequence=3), version=version)
        assert (row.error_code, row.base_offset) == (0, 4)
        assert len(stub.asked) == 2, "the next transaction begins with a question of its own"


async def test_partitions_of_one_request_are_asked_for_together(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        assert await produce(broker, {0: data(), 1: data()}) == {0: (0, 0), 1: (0, 0)}
        assert stub.asked == [(ID, 7, 0, False, [("t", 0), ("t", 1)])]


async def test_one_partition_may_be_refused_and_another_taken(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        stub.codes[ID, "t", 1] = [E.INVALID_TXN_STATE]
        assert await produce(broker, {0: data(), 1: data(), 2: data()}) == {
            0: (0, 0),
            1: (E.INVALID_TXN_STATE, -1),
            2: (E.NOT_LEADER_OR_FOLLOWER, -1),
        }
        assert stub.asked == [(ID, 7, 0, False, [("t", 0), ("t", 1)])]


async def test_without_a_transactional_id_the_whole_request_is_refused(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        answers = await produce(broker, {0: batch(b"plain"), 1: data()}, transactional_id=None)
        assert {code for code, _ in answers.values()} == {E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
        assert broker.broker.topics.led("t", 0).log.log_end_offset == 0
        assert not stub.asked


@pytest.mark.parametrize("second", [data(producer_id=8), data(epoch=1)])
async def test_two_producers_in_one_request_are_refused(tmp_path: Path, second: bytes) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        answers = await produce(broker, {0: data(), 1: second})
        assert {code for code, _ in answers.values()} == {E.INVALID_PRODUCER_ID_MAPPING}
        assert not stub.asked


async def test_plain_batches_under_a_transactional_id_are_taken(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        assert await produce(broker, {0: batch(b"plain")}) == {0: (0, 0)}
        assert not stub.asked


CODES = [
    (E.INVALID_TXN_STATE, 11, E.INVALID_TXN_STATE),
    (E.TRANSACTION_ABORTABLE, 10, E.INVALID_TXN_STATE),
    (E.TRANSACTION_ABORTABLE, 11, E.TRANSACTION_ABORTABLE),
    (E.PRODUCER_FENCED, 11, E.INVALID_PRODUCER_EPOCH),
    (E.INVALID_PRODUCER_ID_MAPPING, 12, E.INVALID_PRODUCER_ID_MAPPING),
    (E.CONCURRENT_TRANSACTIONS, 11, E.NOT_ENOUGH_REPLICAS),
    (E.COORDINATOR_LOAD_IN_PROGRESS, 12, E.NOT_ENOUGH_REPLICAS),
    (E.NOT_COORDINATOR, 11, E.NOT_ENOUGH_REPLICAS),
]


@pytest.mark.parametrize(("answered", "version", "code"), CODES)
async def test_the_coordinators_error_is_told_as_the_version_knows_it(
    tmp_path: Path, answered: E, version: int, code: E
) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        stub.codes[ID, "t", 0] = [answered]
        assert (await produce(broker, data(), version=version)).error_code == code
        assert (await produce(broker, data(), version=version)).error_code == 0


async def test_version_12_waits_a_moment_for_an_earlier_transaction_to_end(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"add_partitions_to_txn_retry_backoff_ms": "1"}
    async with with_coordinator(tmp_path, **settings) as (broker, stub):
        stub.codes[ID, "t", 0] = [E.CONCURRENT_TRANSACTIONS] * 2
        assert (await produce(broker, data())).error_code == 0
        assert len(stub.asked) == 3


async def test_version_12_is_told_when_the_moment_is_over(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"add_partitions_to_txn_retry_backoff_max_ms": "0"}
    async with with_coordinator(tmp_path, **settings) as (broker, stub):
        stub.codes[ID, "t", 0] = [E.CONCURRENT_TRANSACTIONS]
        assert (await produce(broker, data())).error_code == E.CONCURRENT_TRANSACTIONS


@BOTH
async def test_while_no_coordinator_is_there_the_client_tries_again(tmp_path: Path, version: int) -> None:
    async with with_coordinator(tmp_path) as (broker, _stub):
        services = broker.follower.image.services
        broker.follower.move(services={})
        assert (await produce(broker, data(), version=version)).error_code == E.NOT_ENOUGH_REPLICAS
        broker.follower.move(services=services)
        assert (await produce(broker, data(), version=version)).error_code == 0


async def test_without_verification_old_versions_do_not_ask_and_new_ones_do(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"transaction_partition_verification_enable": "false"}
    async with with_coordinator(tmp_path, **settings) as (broker, stub):
        assert (await produce(broker, {0: data()}, version=11)) == {0: (0, 0)}
        assert not stub.asked
        assert (await produce(broker, {1: data()}, version=12)) == {1: (0, 0)}
        assert len(stub.asked) == 1


class Pipelined:
    """Requests that are sent without waiting for answers."""

    def __init__(self, broker: Running) -> None:
        self.broker = broker
        self.tasks: list[asyncio.Task[Any]] = []

    async def send(self, batches: dict[int, bytes], **fields: Any) -> None:
        await self.broker.client.connect()  # or the first ones would overtake one another
        self.tasks.append(asyncio.create_task(produce(self.broker, batches, **fields)))
        await asyncio.sleep(0)

    async def answers(self) -> list[Any]:
        return await asyncio.gather(*self.tasks)


async def begun(stub: StubCoordinator, count: int = 1) -> None:
    """So many questions have come."""
    while len(stub.asked) < count:
        stub.came.clear()
        await stub.came.wait()


async def test_batches_of_one_producer_keep_their_order_and_those_of_others_go_on(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        stub.gate.clear()
        sent = Pipelined(broker)
        for sequence in range(3):
            await sent.send({0: data(sequence=sequence)})
        await sent.send({0: batch(b"plain")})
        await begun(stub)
        other = await broker.service.ask(produce_request({1: batch(b"x")}, acks=1), timeout_ms=60_000, version=12)
        assert other.responses[0].partition_responses[0].error_code == 0
        assert broker.broker.topics.led("t", 0).log.log_end_offset == 1, "the plain batch did not wait"
        assert not any(task.done() for task in sent.tasks), "answers keep the order of their requests"
        stub.gate.set()
        assert await sent.answers() == [{0: (0, 1)}, {0: (0, 2)}, {0: (0, 3)}, {0: (0, 0)}]
        assert len(stub.asked) == 1


async def test_what_waits_behind_a_refused_batch_asks_for_itself(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        stub.codes[ID, "t", 0] = [E.NOT_COORDINATOR]
        stub.gate.clear()
        sent = Pipelined(broker)
        for sequence in range(2):
            await sent.send({0: data(sequence=sequence)})
        await begun(stub)
        stub.gate.set()
        first, second = await sent.answers()
        assert first == {0: (E.NOT_ENOUGH_REPLICAS, -1)}
        assert second == {0: (E.NOT_LEADER_OR_FOLLOWER, -1)}, "the batch before it must be sent again"
        assert await produce(broker, {0: data()}) == {0: (0, 0)}
        assert await produce(broker, {0: data(sequence=1)}) == {0: (0, 1)}


async def test_what_is_held_has_a_bound_and_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "MOST_BYTES", 1500)
    async with with_coordinator(tmp_path) as (broker, stub):
        stub.gate.clear()
        sent = Pipelined(broker)
        for sequence in range(3):
            await sent.send({0: data(b"x" * 400, sequence=sequence)})
        await begun(stub)
        stub.gate.set()
        assert [answer[0][0] for answer in await sent.answers()] == [E.NONE, E.NONE, E.NOT_ENOUGH_REPLICAS]
        assert await produce(broker, {0: data(b"x", sequence=2)}) == {0: (0, 2)}


async def test_an_answer_that_a_marker_overtook_lets_nothing_in(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        stub.gate.clear()
        sent = Pipelined(broker)
        await sent.send({0: data()})
        await begun(stub)
        assert await write_markers(broker, marker(epoch=1, commit=False)) == [{("t", 0): 0}]
        stub.gate.set()
        assert await sent.answers() == [{0: (E.INVALID_PRODUCER_EPOCH, -1)}]
        assert broker.broker.topics.led("t", 0).log.log_end_offset == 1


async def test_a_batch_of_a_fenced_epoch_is_refused_without_a_question(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        await write_markers(broker, marker(epoch=3, commit=False))
        row = await produce(broker, data(epoch=2))
        assert row.error_code == E.INVALID_PRODUCER_EPOCH
        assert not stub.asked


async def test_a_leadership_that_ends_meanwhile_refuses_the_batch(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        stub.gate.clear()
        sent = Pipelined(broker)
        await sent.send({0: data()})
        await begun(stub)
        broker.follower.move(topics={**broker.follower.image.topics, "t": topic("t", TOPIC_ID, 1, 1, 1)})
        stub.gate.set()
        assert await sent.answers() == [{0: (E.NOT_LEADER_OR_FOLLOWER, -1)}]

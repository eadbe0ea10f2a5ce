"""Transactions on the wire, as the leader of a partition answers them: Produce of each protocol, and markers."""

from __future__ import annotations

from typing import Any

import pytest

from support.batches import TRANSACTIONAL, Batch, record
from support.raw import build
from support.stage import Topic, create_topic, produce_request, unique
from support.targets import Target
from support.waiting import until

NONE, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING = 0, 47, 48, 49
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TRANSACTION_ABORTABLE, UNKNOWN_TOPIC_OR_PARTITION = 53, 120, 3
OUT_OF_ORDER_SEQUENCE_NUMBER, TRANSACTION_COORDINATOR_FENCED = 45, 52
CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST = 31, 42
INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN, WRITE_MARKERS, LIST_OFFSETS, FIND_COORDINATOR = 22, 24, 26, 27, 2, 10
FIRST_PROTOCOL = pytest.mark.parametrize("version", [9, 11])
pytestmark = [
    pytest.mark.capability("transactions: a leader verifies and adds partitions (KIP-890)"),
    pytest.mark.also_plain,
]


class Producer:
    """A transactional id with the producer id and epoch that it has."""

    def __init__(self, target: Target, version: int = 4) -> None:
        self.target = target
        self.name = unique("transaction")
        self.version = version
        self.node = until(self._coordinator, "a transaction coordinator")[0]
        self.producer_id, self.epoch = -1, -1
        self.begin()

    def _coordinator(self) -> tuple[int] | None:
        answer = self.target.ask(build(FIND_COORDINATOR, key_type=1, coordinator_keys=[self.name]), 4)
        row = answer.coordinators[0]
        return (row.node_id,) if row.error_code == 0 else None

    def begin(self) -> None:
        """A new epoch, which fences the earlier one."""
        request = build(
            INIT_PRODUCER_ID,
            transactional_id=self.name,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )

        def ask() -> tuple[int, int] | None:
            answer = self.target.ask(request, self.version, self.node)
            return (answer.producer_id, answer.producer_epoch) if answer.error_code == 0 else None

        self.producer_id, self.epoch = until(ask, f"a producer id for {self.name}")

    def add(self, topic: Topic, partition: int = 0) -> int:
        """AddPartitionsToTxn of a client."""
        topics = [{"name": topic.name, "partitions": [partition]}]
        request = build(
            ADD_PARTITIONS,
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        answer = self.target.ask(request, 3, self.node)
        return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def end(self, *, commit: bool = True, version: int = 3) -> int:
        """EndTxn; from v5 on it gives the next epoch."""
        request = build(
            END_TXN,
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = self.target.ask(request, version, self.node)
        if version >= 5 and answer.error_code == 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    def batch(self, sequence: int = 0, *, epoch: int | None = None, producer_id: int | None = None) -> bytes:
        return Batch(
            records=[record(0, b"v")],
            attributes=TRANSACTIONAL,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
        ).encode()

    def produce(self, topic: Topic, data: bytes, *, version: int = 11) -> tuple[int, int]:
        """(error code, base offset); CONCURRENT_TRANSACTIONS and what older versions have for it are tried again."""
        request = produce_request(topic, data, version=version)
        request.transactional_id = self.name

        def ask() -> tuple[int, int] | None:
            with topic.leader() as connection:
                row = connection.ask(request, version).responses[0].partition_responses[0]
            return None if row.error_code in (19, 51) else (row.error_code, row.base_offset)

        return until(ask, "the partition's answer")


def stable(topic: Topic) -> int:
    """The last stable offset."""
    row = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
    request = build(LIST_OFFSETS, replica_id=-1, isolation_level=1, topics=[{"name": topic.name, "partitions": [row]}])
    with topic.leader() as connection:
        return int(connection.ask(request, 7).topics[0].partitions[0].offset)


def write_markers(topic: Topic, producer_id: int, epoch: int, *, version: int = 2, **fields: Any) -> list[int]:
    """One marker for partitions of the topic; their error codes."""
    marker = {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_result": fields.pop("commit", False),
        "topics": [{"name": topic.name, "partition_indexes": fields.pop("partitions", [0])}],
        "coordinator_epoch": fields.pop("coordinator_epoch", 0),
        "transaction_version": fields.pop("transaction_version", 0),
    }
    with topic.leader() as connection:
        answer = connection.ask(build(WRITE_MARKERS, markers=[marker]), version)
    rows = sorted(answer.markers[0].topics[0].partitions, key=lambda row: row.partition_index)
    return [row.error_code for row in rows]


@FIRST_PROTOCOL
def test_a_partition_that_was_added_takes_the_transactions_batches(target: Target, version: int) -> None:
    topic, producer = create_topic(target), Producer(target)
    assert producer.add(topic) == NONE
    assert [producer.produce(topic, producer.batch(n), version=version) for n in (0, 1, 0)] == [(0, 0), (0, 1), (0, 0)]
    assert stable(topic) == 0
    assert producer.end() == NONE
    until(lambda: stable(topic) == 3, "the marker")


@FIRST_PROTOCOL
def test_a_partition_that_was_not_added_is_refused(target: Target, version: int) -> None:
    topic, producer = create_topic(target), Producer(target)
    code = TRANSACTION_ABORTABLE if version >= 11 else INVALID_TXN_STATE
    assert producer.produce(topic, producer.batch(), version=version) == (code, -1)
    assert stable(topic) == 0


@pytest.mark.parametrize("version", [12, 13])
def test_the_second_protocol_adds_the_partition_with_its_first_batch(target: Target, version: int) -> None:
    topic, producer = create_topic(target), Producer(target, version=5)
    for sequence in (0, 1):
        assert producer.produce(topic, producer.batch(sequence), version=version) == (0, sequence)
    before = producer.epoch
    assert producer.end(version=5) == NONE
    assert producer.epoch == before + 1
    assert producer.produce(topic, producer.batch(), version=version) == (0, 3)
    assert producer.produce(topic, producer.batch(0, epoch=before), version=version)[0] == INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("version", [9, 11, 12])
def test_a_fenced_producer_is_refused(target: Target, version: int) -> None:
    topic, producer = create_topic(target), Producer(target)
    assert producer.add(topic) == NONE
    old = producer.epoch
    producer.begin()
    assert producer.produce(topic, producer.batch(epoch=old), version=version)[0] == INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("version", [9, 11, 12])
def test_another_producer_id_than_the_transactional_ids_is_refused(target: Target, version: int) -> None:
    topic, producer = create_topic(target), Producer(target)
    assert producer.add(topic) == NONE
    found = producer.produce(topic, producer.batch(producer_id=producer.producer_id + 500), version=version)
    assert found == (INVALID_PRODUCER_ID_MAPPING, -1)


@pytest.mark.parametrize("version", [9, 11, 12, 13])
def test_transactional_batches_need_a_transactional_id(target: Target, version: int) -> None:
    topic, producer = create_topic(target), Producer(target)
    request = produce_request(topic, producer.batch(), version=version)
    with topic.leader() as connection:
        row = connection.ask(request, version).responses[0].partition_responses[0]
    assert row.error_code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_batch_after_the_end_needs_the_partition_to_be_added_again(target: Target) -> None:
    topic, producer = create_topic(target), Producer(target)
    producer.add(topic)
    assert producer.produce(topic, producer.batch()) == (0, 0)
    assert producer.end() == NONE
    until(lambda: stable(topic) == 2, "the marker")
    assert producer.produce(topic, producer.batch(1)) == (TRANSACTION_ABORTABLE, -1)


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_ends_a_hanging_transaction(target: Target, version: int) -> None:
    topic, producer = create_topic(target), Producer(target)
    producer.add(topic)
    assert producer.produce(topic, producer.batch()) == (0, 0)
    assert write_markers(topic, producer.producer_id, producer.epoch, version=version) == [NONE]
    assert stable(topic) == 2
    assert producer.produce(topic, producer.batch(1)) == (0, 2), "its coordinator still knows of the transaction"


def test_markers_without_an_open_transaction_are_refused_by_epoch_or_at_once(target: Target) -> None:
    topic = create_topic(target)
    identity = Producer(target).producer_id

    def expect(kafka: list[int], tailrace: int, *fields: int, **more: Any) -> None:
        found = write_markers(topic, identity, *fields, **more)
        assert found == (kafka if target.is_kafka else [tailrace] * len(kafka))

    expect([NONE], INVALID_TXN_STATE, 5, coordinator_epoch=3)
    expect([INVALID_PRODUCER_EPOCH], INVALID_TXN_STATE, 4, coordinator_epoch=3)
    expect([TRANSACTION_COORDINATOR_FENCED], INVALID_TXN_STATE, 5, coordinator_epoch=2)
    expect([NONE], INVALID_TXN_STATE, 5, coordinator_epoch=3, transaction_version=2)  # a repeated one
    two = {"transaction_version": 2, "partitions": [0, 9]}
    expect([NONE, UNKNOWN_TOPIC_OR_PARTITION], INVALID_REQUEST, 6, coordinator_epoch=3, **two)
    expect([NONE], CLUSTER_AUTHORIZATION_FAILED, 6, coordinator_epoch=3, commit=True)
    assert stable(topic) == (4 if target.is_kafka else 0)


def test_a_marker_of_an_open_transaction_has_the_epoch_of_its_version(target: Target) -> None:
    topic, producer = create_topic(target), Producer(target)
    producer.add(topic)
    assert producer.produce(topic, producer.batch()) == (0, 0)
    identity, epoch = producer.producer_id, producer.epoch
    if target.is_kafka:
        assert write_markers(topic, identity, epoch, transaction_version=2) == [INVALID_PRODUCER_EPOCH]
        assert write_markers(topic, identity, epoch + 1, transaction_version=2) == [NONE]
    else:
        assert write_markers(topic, identity, epoch + 1) == [INVALID_PRODUCER_EPOCH]
        assert write_markers(topic, identity, epoch) == [NONE]


def test_after_a_marker_sequences_begin_at_0(target: Target) -> None:
    topic, producer = create_topic(target), Producer(target)
    producer.add(topic)
    assert producer.end() == NONE
    until(lambda: stable(topic) == 1, "the marker of a transaction without records")
    assert until(lambda: producer.add(topic) == NONE, "the next transaction")
    assert producer.produce(topic, producer.batch(5)) == (OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert producer.produce(topic, producer.batch(0)) == (0, 1)

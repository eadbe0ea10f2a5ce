"""Transactions of the client libraries: what is committed is read once and in order, what is aborted never."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from support.stage import Topic, create_topic, unique
from support.targets import Target
from support.transactions_read import values
from support.waiting import HUNG_S, until


def with_confluent(target: Target, name: str, topic: Topic, outcomes: list[tuple[str, bool]]) -> None:
    producer: Any = confluent_kafka.Producer({"bootstrap.servers": target.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    for value, commit in outcomes:
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic.name, value.encode(), partition=partition)
        producer.flush(HUNG_S)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)


def with_kafka_python(target: Target, name: str, topic: Topic, outcomes: list[tuple[str, bool]]) -> None:
    producer: Any = kafka.KafkaProducer(bootstrap_servers=target.bootstrap, transactional_id=name)
    producer.init_transactions()
    for value, commit in outcomes:
        producer.begin_transaction()
        for partition in range(2):
            producer.send(topic.name, value.encode(), partition=partition).get(HUNG_S)
        (producer.commit_transaction if commit else producer.abort_transaction)()
    producer.close()


def with_aiokafka(target: Target, name: str, topic: Topic, outcomes: list[tuple[str, bool]]) -> None:
    async def produce() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=target.bootstrap, transactional_id=name)
        await producer.start()
        try:
            for value, commit in outcomes:
                await producer.begin_transaction()
                for partition in range(2):
                    await producer.send_and_wait(topic.name, value.encode(), partition=partition)
                await (producer.commit_transaction() if commit else producer.abort_transaction())
        finally:
            await producer.stop()

    asyncio.run(produce())


PRODUCERS: dict[str, Callable[..., None]] = {
    "confluent": with_confluent,
    "kafka_python": with_kafka_python,
    "aiokafka": with_aiokafka,
}


@pytest.mark.capability("transactions of the client libraries: committed and aborted")
@pytest.mark.parametrize("library", PRODUCERS)
def test_committed_and_aborted_transactions(target: Target, library: str) -> None:
    topic = create_topic(target, partitions=2)
    outcomes = [(f"{number}", number % 3 != 1) for number in range(9)]
    PRODUCERS[library](target, unique("transaction"), topic, outcomes)
    expected = [value for value, commit in outcomes if commit]
    for partition in range(2):
        seen = partial(values, target, topic, partition, committed=True)
        until(partial(_are, seen, expected), f"the values of partition {partition}")
        assert values(target, topic, partition, committed=False) == [value for value, _ in outcomes]


def _are(seen: Callable[[], list[str]], expected: list[str]) -> bool | None:
    return seen() == expected or None


@pytest.mark.capability("transactions: consume, transform, produce, with offsets in the transaction")
@pytest.mark.by("confluent")
def test_each_input_has_its_effect_once(target: Target) -> None:
    """The first life ends in the middle of a transaction, the second takes up its transactional id and its group."""
    source, sink = create_topic(target), create_topic(target)
    plain: Any = confluent_kafka.Producer({"bootstrap.servers": target.bootstrap})
    for number in range(20):
        plain.produce(source.name, f"{number}".encode())
    plain.flush(HUNG_S)
    group, name = unique("group"), unique("transaction")
    for last, finishes in ((7, False), (19, True)):
        transform(target, (source, sink), group, name, last, finishes=finishes)
    seen = partial(values, target, sink, committed=True)
    until(lambda: len(seen()) == 20 or None, "all effects")
    assert seen() == [f"{number}" for number in range(20)]


def transform(target: Target, topics: tuple[Topic, Topic], group: str, name: str, last: int, *, finishes: bool) -> None:
    """Copies up to an input, one in each transaction; finishes: whether that of the last is committed."""
    source, sink = topics
    consumer: Any = confluent_kafka.Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([source.name])
    producer: Any = confluent_kafka.Producer({"bootstrap.servers": target.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    number = -1
    while number < last:
        message: Any = consumer.poll(HUNG_S)
        assert message is not None
        assert message.error() is None
        number = int(message.value())
        producer.begin_transaction()
        producer.produce(sink.name, message.value())
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        if number < last or finishes:
            producer.commit_transaction(30)
    producer.flush(HUNG_S)
    consumer.close()

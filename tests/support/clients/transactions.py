"""Transactional producers (librdkafka) and readers of both isolation levels, for what a Kafka held before it moved."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonTopicPartition

from support.waiting import HUNG_S

TIMEOUT_S = HUNG_S
LONGEST_MS = 900_000  # that a broker lets a transaction be open; what is left open is to be so in a test's next cluster
ROUNDS, EACH = 4, 5
COMMITTED = ROUNDS * EACH
LEVELS = {True: "read_committed", False: "read_uncommitted"}
Read = list[tuple[int, bytes]]


def producer(bootstrap: str, name: str) -> Producer:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0}
    begun = Producer({**settings, "transaction.timeout.ms": LONGEST_MS})
    begun.init_transactions(TIMEOUT_S)
    return begun


def write_both_ways(bootstrap: str, topic: str) -> Read:
    """Two producers whose transactions overlap; of each pair one is committed: its records, in their order."""
    pair = [producer(bootstrap, f"{topic}-{number}") for number in range(2)]
    committed: Read = []
    for turn in range(ROUNDS):
        sent: list[Read] = [[], []]
        for one in pair:
            one.begin_transaction()
        for number in range(EACH):
            for which, one in enumerate(pair):
                value = b"%d-%d-%d" % (which, turn, number)

                def delivered(error: Any, message: Any, kept: Read = sent[which]) -> None:
                    assert error is None, error
                    kept.append((message.offset(), message.value()))

                one.produce(topic, value, on_delivery=delivered)
                one.flush(TIMEOUT_S)
        pair[turn % 2].abort_transaction(TIMEOUT_S)
        pair[1 - turn % 2].commit_transaction(TIMEOUT_S)
        committed += sent[1 - turn % 2]
    return sorted(committed)


def leave_open(bootstrap: str, topic: str) -> None:
    """A plain record, then a transaction of two that nobody ends."""
    plain = Producer({"bootstrap.servers": bootstrap})
    plain.produce(topic, b"plain")
    plain.flush(TIMEOUT_S)
    opened = producer(bootstrap, f"{topic}-open")
    opened.begin_transaction()
    for number in range(2):
        opened.produce(topic, b"%d" % number)
    opened.flush(TIMEOUT_S)


def by_confluent(bootstrap: str, topic: str, *, committed: bool) -> Read:
    """All of partition 0 up to the end that this isolation level shows."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True}
    settings["fetch.wait.max.ms"] = 10  # the end is told by a fetch that finds nothing
    consumer = Consumer({**settings, "enable.auto.commit": False, "isolation.level": LEVELS[committed]})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: Read = []
    while (message := consumer.poll(TIMEOUT_S)) is not None:
        failed = message.error()
        if failed is not None:
            assert failed.code() == KafkaError._PARTITION_EOF, failed
            break
        found.append((message.offset() or 0, message.value() or b""))
    consumer.close()
    return found


def by_kafka_python(bootstrap: str, topic: str, *, committed: bool) -> Read:
    place = PythonTopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=LEVELS[committed], enable_auto_commit=False)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    end = consumer.end_offsets([place])[place]
    found: Read = []
    while consumer.position(place) < end:
        for rows in consumer.poll(timeout_ms=TIMEOUT_S * 1000).values():
            found += [(row.offset, row.value) for row in rows]
    consumer.close()
    return found


def by_aiokafka(bootstrap: str, topic: str, *, committed: bool) -> Read:
    async def read() -> Read:
        place = AioTopicPartition(topic, 0)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level=LEVELS[committed], enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            end = (await consumer.end_offsets([place]))[place]
            found: Read = []
            while await consumer.position(place) < end:
                for rows in (await consumer.getmany(place, timeout_ms=1000)).values():
                    found += [(row.offset, row.value) for row in rows]
            return found
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(read(), TIMEOUT_S))


READERS: dict[str, Callable[..., Read]] = {
    "confluent": by_confluent,
    "kafka_python": by_kafka_python,
    "aiokafka": by_aiokafka,
}

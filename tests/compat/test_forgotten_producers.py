"""Idempotent producers whose id a partition has forgotten, because very many others wrote to it, go on as before.

Apache Kafka forgets an id by producer.id.expiration.ms only, and then takes any sequence of it (KIP-360).
"""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from confluent_kafka import Producer

from support.batches import Batch, batch, record
from support.clients.base import EARLIEST
from support.clients.confluent import ConfluentClient
from support.java_tools import PRODUCER
from support.kafka_peer import quick_java
from support.stage import Topic, create_topic, produce_request
from support.targets import Target
from tailrace.log.producers.state import MAX_PRODUCER_IDS

FIRST_ID = 1 << 40  # which no broker gives
AT_ONCE = 500


def fill(topic: Topic) -> None:
    """As many other producers write a record each as a partition of Tailrace remembers."""
    with topic.leader() as connection:
        for start in range(0, MAX_PRODUCER_IDS, AT_ONCE):
            requests = [produce_request(topic, one_of(FIRST_ID + start + n)) for n in range(AT_ONCE)]
            sent = [connection.send(request, 9) for request in requests]
            answers = [connection.receive(0, 9, number) for number in sent]
            assert {answer.responses[0].partition_responses[0].error_code for answer in answers} == {0}


def one_of(producer_id: int) -> bytes:
    return Batch(records=[record(0, b"other")], producer_id=producer_id, producer_epoch=0, base_sequence=0).encode()


def read(target: Target, topic: Topic, count: int) -> list[bytes | None]:
    """The first records."""
    client = ConfluentClient(target.bootstrap)
    try:
        return [one.value for one in client.read(topic.name, EARLIEST, count)]
    finally:
        client.close()


def check(target: Target, topic: Topic) -> None:
    """Each of four records is there once, in order."""
    total = MAX_PRODUCER_IDS + 4
    assert topic.produce(batch(b"next")).base_offset == total
    assert [value for value in read(target, topic, total) if value != b"other"] == [b"1", b"2", b"3", b"4"]


@pytest.mark.by("confluent-kafka")
@pytest.mark.capability("an idempotent producer whose id was forgotten goes on")
def test_librdkafka_goes_on_without_loss_or_duplicates(target: Target) -> None:
    topic, failed = create_topic(target), list[Any]()
    producer = Producer({"bootstrap.servers": target.bootstrap, "enable.idempotence": True})
    for values in ((b"1", b"2"), (b"3", b"4")):
        for value in values:
            producer.produce(topic.name, value, partition=0, on_delivery=lambda error, _: failed.append(error))
            assert producer.flush(30) == 0
        if values[0] == b"1":
            fill(topic)
    assert failed == [None] * 4
    check(target, topic)


@pytest.mark.by("java")
@pytest.mark.capability("an idempotent producer whose id was forgotten goes on")
def test_java_goes_on_without_loss_or_duplicates(target: Target) -> None:
    topic = create_topic(target)
    command = [*quick_java(128), PRODUCER, "--bootstrap-server", target.bootstrap]
    with subprocess.Popen([*command, "--topic", topic.name], stdin=subprocess.PIPE, text=True) as java:
        assert java.stdin is not None
        java.stdin.write("1\n2\n")
        java.stdin.flush()
        assert len(read(target, topic, 2)) == 2
        fill(topic)
        java.stdin.write("3\n4\n")
        java.stdin.close()
        assert java.wait(60) == 0
    check(target, topic)

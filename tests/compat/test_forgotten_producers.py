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
from support.waiting import HUNG_S
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


@pytest.mark.by("java")
@pytest.mark.capability("an idempotent producer whose id was forgotten goes on")
@pytest.mark.only("tailrace1", "kafka")  # a partition forgets, whatever the way to it
def test_librdkafka_and_java_go_on_without_loss_or_duplicates(target: Target) -> None:
    topic, failed = create_topic(target), list[Any]()
    librdkafka = Producer({"bootstrap.servers": target.bootstrap, "enable.idempotence": True})

    def produce(*values: bytes) -> None:
        for value in values:
            librdkafka.produce(topic.name, value, partition=0, on_delivery=lambda error, _: failed.append(error))
            assert librdkafka.flush(HUNG_S) == 0

    command = [*quick_java(128), PRODUCER, "--bootstrap-server", target.bootstrap, "--topic", topic.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as java:
        assert java.stdin is not None
        java.stdin.write("1\n2\n")
        java.stdin.flush()
        assert len(read(target, topic, 2)) == 2
        produce(b"a", b"b")
        fill(topic)
        produce(b"c", b"d")
        java.stdin.write("3\n4\n")
        java.stdin.close()
        assert java.wait(60) == 0
    assert failed == [None] * 4
    total = MAX_PRODUCER_IDS + 8
    assert topic.produce(batch(b"next")).base_offset == total
    values = [value for value in read(target, topic, total) if value != b"other"]
    assert values == [b"1", b"2", b"a", b"b", b"c", b"d", b"3", b"4"]

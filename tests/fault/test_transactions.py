"""Consume, transform, produce while everything is killed and stopped in turn: each input has its effect exactly once.

Three loops of three client libraries, each a process that may be killed, too. A checker of its own reads what they
wrote at read_committed.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from kafka import KafkaProducer

from support.commands import environment
from support.ports import free_ports
from support.transform import CLIENTS, GROUP, SINKS, SOURCE
from support.waiting import until
from tailrace.testing import Cluster

INPUTS = 400  # of each partition
STEP = 25  # of them between two faults
PARTITIONS = len(CLIENTS)
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "min.insync.replicas": "2",
}


class Loop:
    """One client's loop; a process that ends is followed by another one with the same transactional id."""

    def __init__(self, client: str, bootstrap: str, partition: int) -> None:
        self.position = 0
        self.lives = 0
        self.news = threading.Condition()
        self.over = False
        self.log = b""
        self._command = [sys.executable, "-m", "support.transform", client, bootstrap, str(partition)]
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, name=client)
        self._thread.start()

    def _run(self) -> None:
        while not self.over:
            process = self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(None)
            )
            self.lives += 1
            assert process.stdout is not None
            for line in process.stdout:
                with self.news:
                    self.position = max(self.position, int(line))
                    self.news.notify_all()
            process.wait()

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()

    def wait_for(self, position: int, timeout_seconds: float = 90) -> None:
        """Returns when it has committed so far."""
        with self.news:
            if not self.news.wait_for(lambda: self.position >= position, timeout_seconds):
                raise TimeoutError(f"{self._command[3]} is at {self.position} of {position}, in life {self.lives}")

    def end(self) -> None:
        self.over = True
        self.kill()
        self._thread.join()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three brokers, two gateways, two coordinators; who dies comes back by itself."""
    arguments = ["--brokers", "3", "--gateways", "2", "--coordinators", "2"]
    with Cluster(port=free_ports(4), arguments=arguments, settings=SETTINGS) as running:
        yield running


def prepare(cluster: Cluster) -> AdminClient:
    """The topics, and all inputs: each value is "partition offset"."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    made = admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (SOURCE, *SINKS)])
    for one in made.values():
        one.result(30)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=True)
    for number in range(INPUTS):
        for partition in range(PARTITIONS):
            producer.send(SOURCE, f"{partition} {number}".encode(), partition=partition)
    producer.flush(60)
    producer.close()
    return admin


def ends(admin: AdminClient, level: IsolationLevel) -> dict[tuple[str, int], int]:
    """The end offsets of the sinks as a reader of that isolation level is told them."""
    latest: Any = OffsetSpec.latest  # it has no types
    wanted = {TopicPartition(sink, n): latest() for sink in SINKS for n in range(PARTITIONS)}
    found = admin.list_offsets(wanted, isolation_level=level, request_timeout=20)
    return {(at.topic, at.partition): one.result().offset for at, one in found.items()}


def effects(cluster: Cluster, until_offsets: dict[tuple[str, int], int]) -> dict[str, Counter[bytes]]:
    """What a reader at read_committed finds in each sink."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "checker",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(sink, n, 0) for sink, n in until_offsets])
    found: dict[str, Counter[bytes]] = {sink: Counter() for sink in SINKS}
    left = set(until_offsets)
    while left:
        message = consumer.poll(30)
        assert message is not None, f"nothing comes, and {left} were not read to the end"
        if message.error() is None:
            found[str(message.topic())][bytes(message.value() or b"")] += 1
        else:
            left.discard((message.topic(), message.partition()))
    consumer.close()
    return found


def test_each_input_has_its_effect_once_whatever_is_killed(cluster: Cluster) -> None:
    admin = prepare(cluster)
    loops = [Loop(client, cluster.bootstrap, n) for n, client in enumerate(CLIENTS)]

    def go_on() -> None:
        """Every loop commits some more."""
        for loop, position in [(loop, min(INPUTS, loop.position + STEP)) for loop in loops]:
            loop.wait_for(position)

    try:
        go_on()
        for role, number in (("coordinator", 0), ("broker", 1), ("gateway", 0), ("coordinator", 1), ("controller", 0)):
            mark = cluster.kill(role, number)
            cluster.wait_for("ready", role, number, since=mark)
            go_on()
        for loop in loops:
            loop.kill()
        go_on()
        for role, number in (("coordinator", 0), ("broker", 2)):
            cluster.pause(role, number)
            try:
                go_on()
            finally:
                cluster.resume(role, number)
        for loop in loops:
            loop.wait_for(INPUTS)
    finally:
        for loop in loops:
            loop.end()
    # An aborted transaction's end may still be on its way, and a killed client's last one times out.
    until(
        lambda: ends(admin, IsolationLevel.READ_COMMITTED) == ends(admin, IsolationLevel.READ_UNCOMMITTED),
        "no transaction is open",
        timeout_s=60,
    )
    expected = Counter(f"{partition} {n}".encode() for partition in range(PARTITIONS) for n in range(INPUTS))
    found = effects(cluster, ends(admin, IsolationLevel.READ_COMMITTED))
    for sink in SINKS:
        assert found[sink] == expected, (sink, found[sink] - expected, expected - found[sink])
    asked = [ConsumerGroupTopicPartitions(GROUP, [TopicPartition(SOURCE, n) for n in range(PARTITIONS)])]
    committed = admin.list_consumer_group_offsets(asked)[GROUP].result(30).topic_partitions
    assert sorted((one.partition, one.offset) for one in committed) == [(n, INPUTS) for n in range(PARTITIONS)]

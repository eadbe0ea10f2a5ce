"""Clients that connect, or are connected, while a cluster starts or comes back: all of them get their work done.

librdkafka is the client that an answer without brokers hurts most: its AdminClient waits for minutes for a controller,
and from 2.10 on it may forget every node it knew.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.ports import HOST, free_ports
from support.waiting import HUNG_S, until
from tailrace.testing import Cluster

# A broker that is silent is given up soon, and one on a busy machine is not silent so long.
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
}
PRODUCERS, ADMINS, ROUNDS = 6, 6, 4
PATIENCE_S = HUNG_S  # below what a client of an answer without brokers waits
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def port() -> int:
    return free_ports(2)


@pytest.fixture
def bootstrap(port: int) -> str:
    """Known before the cluster is there."""
    return f"{HOST}:{port}"


@pytest.fixture(params=["gateway", "brokers"])
def cluster(request: pytest.FixtureRequest, port: int) -> Iterator[Cluster]:
    """Not started yet; clients are told of the gateway, or of the brokers' own listeners."""
    made = Cluster(port=port, settings={**SETTINGS, "gateway.advertise": request.param})
    yield made
    made.close()


class Creation:
    """An AdminClient that creates a topic in its own thread, now."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._answer: queue.Queue[Exception | None] = queue.Queue()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        asked = admin.create_topics([NewTopic(self._topic, 1, 1)], request_timeout=PATIENCE_S)
        try:
            asked[self._topic].result()
            self._answer.put(None)
        except Exception as refused:  # noqa: BLE001 - told by the test
            self._answer.put(None if _exists(refused) else refused)

    def done(self) -> None:
        """Returns when the topic is created; raises what was answered instead."""
        refused = self._answer.get(timeout=2 * PATIENCE_S)
        if refused is not None:
            raise refused


def _exists(refused: Exception) -> bool:
    """Whether the topic was created by a request whose answer was lost: librdkafka asks again, as with Kafka."""
    return isinstance(refused, KafkaException) and refused.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS


class Busy:
    """A client that works in its own thread from the start on."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._count = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def count(self) -> int:
        """How often something was done."""
        with self._news:
            return self._count

    def wait_beyond(self, count: int) -> None:
        """Returns when more was done than that."""
        with self._news:
            assert self._news.wait_for(lambda: self._count > count, PATIENCE_S), f"{self!r} does nothing any more"

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _done(self) -> None:
        with self._news:
            self._count += 1
            self._news.notify_all()

    def _run(self) -> None:
        raise NotImplementedError


class Producing(Busy):
    """Acknowledgements of one producer."""

    def __init__(self, bootstrap: str, topic: str, *, idempotent: bool) -> None:
        super().__init__()
        self._topic = topic
        options = {"bootstrap.servers": bootstrap, "enable.idempotence": idempotent, "log_level": 0}
        self._producer = Producer({**options, "queue.buffering.max.messages": 1000})

    def _run(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(BufferError):
                self._producer.produce(self._topic, b"v", on_delivery=self._delivered)
            self._producer.poll(0.02)
        self._producer.purge()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self._done()


class Member(Busy):
    """Records that a group's only member reads."""

    def __init__(self, bootstrap: str, topics: list[str]) -> None:
        super().__init__()
        options = {"group.id": "members", "auto.offset.reset": "earliest", "log_level": 0}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **options})
        self._consumer.subscribe(topics)

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._done()
        self._consumer.close()


def test_topics_are_created_for_all_who_ask_in_the_first_moments(cluster: Cluster, bootstrap: str) -> None:
    cluster.launch()
    asked = []
    for event in (
        "started",
        "opened",
        "ready",
    ):  # of the gateway: before it listens, before and after a broker is there
        cluster.wait_for(event, "gateway")
        asked += [Creation(bootstrap, f"{event}-{number}") for number in range(ADMINS)]
    for creation in asked:
        creation.done()


def test_connected_clients_go_on_after_every_kill_9_of_everything(cluster: Cluster, bootstrap: str) -> None:
    cluster.start()
    topics = [f"t{number}" for number in range(3)]
    for topic in topics:
        Creation(bootstrap, topic).done()
    clients: list[Busy] = [
        Producing(bootstrap, topics[number % 3], idempotent=number % 2 == 0) for number in range(PRODUCERS)
    ]
    clients.append(Member(bootstrap, topics))
    for client in clients:
        client.start()
    try:
        for number in range(ROUNDS):
            for client in clients:
                client.wait_beyond(client.count())
            cluster.kill_all()
            before = [client.count() for client in clients]
            cluster.launch()
            cluster.wait_for("opened", "gateway")
            asked = [Creation(bootstrap, f"round-{number}-{each}") for each in range(ADMINS)]
            cluster.wait_for("all_ready")
            for creation in asked:
                creation.done()
            for client, count in zip(clients, before, strict=True):
                client.wait_beyond(count)
    finally:
        for client in clients:
            client.stop()


def test_a_topic_is_created_when_the_only_broker_is_back(cluster: Cluster, bootstrap: str) -> None:
    cluster.start()
    cluster.pause("broker")
    try:
        until(lambda: "no broker is unfenced" in cluster.last_log(), "the silent broker is fenced")
        mark = cluster.kill("gateway")  # the next one has never seen the broker live
        cluster.wait_for("opened", "gateway", since=mark)
        asked = [Creation(bootstrap, f"meanwhile-{number}") for number in range(ADMINS)]
    finally:
        cluster.resume("broker")
    for creation in asked:
        creation.done()

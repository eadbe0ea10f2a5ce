"""Logins of every client at a cluster with several brokers and gateways, also where a broker has the socket."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from support.ports import free_ports
from support.raw import Raw, build
from support.sasl import login, spoken
from support.subscribing import subscribed
from support.waiting import HUNG_S, until
from tailrace.access.sasl import BY_PASSWORD
from tailrace.net.address import Address
from tailrace.testing import Cluster

PROTOCOL, USER, PASSWORD = "SASL_PLAINTEXT", "alice", "with = and , "
WAYS = {"handed over": {}, "at the broker": {"gateway.advertise": "brokers"}}
SETTINGS = {
    "gateway.security.protocol": PROTOCOL,
    "sasl.enabled.mechanisms": ",".join(BY_PASSWORD),
    "connections.max.reauth.ms": "3000",
}
COUNT = 20


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.replace(" ", "-"))
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    arguments = ("--brokers", "3", "--gateways", "2")
    with Cluster(port=free_ports(3), arguments=arguments, settings=SETTINGS | WAYS[request.param]) as running:
        words = ["user", "create", USER, "--data", str(running.data_dir)]
        both = ["--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512"]
        subprocess.run(
            [sys.executable, "-m", "tailrace.cli", *words, *both],
            check=True,
            input=f"{PASSWORD}\n",
            text=True,
            timeout=HUNG_S,
        )
        admin = AdminClient(confluent(running, "PLAIN"))
        topics = [NewTopic(name, 3, 3) for name in (*BY_PASSWORD, "again", "aiokafka")]
        for future in admin.create_topics(topics).values():
            future.result(HUNG_S)
        yield running


def confluent(cluster: Cluster, mechanism: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": PROTOCOL,
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }


def python(cluster: Cluster, mechanism: str) -> dict[str, Any]:
    """Of kafka-python and aiokafka."""
    return {
        "bootstrap_servers": cluster.bootstrap,
        "security_protocol": PROTOCOL,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }


def counted(cluster: Cluster, name: str) -> float:
    """Over all processes that may hold a client's socket."""
    found = 0.0
    for role, count in (("gateway", 2), ("broker", 3)):
        for number in range(count):
            url = f"http://{cluster.addresses(role, number)['http']}/metrics"
            with urlopen(url, timeout=HUNG_S) as answer:
                text = answer.read().decode()
            found += sum(map(float, re.findall(rf"^tailrace_{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)))
    return found


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
def test_kafka_python_and_librdkafka_write_and_read_in_groups(cluster: Cluster, mechanism: str) -> None:
    producer = KafkaProducer(**python(cluster, mechanism))
    for number in range(COUNT):
        producer.send(mechanism, b"%d" % number)
    producer.flush(HUNG_S)
    producer.close()
    reading = {"group.id": f"l-{mechanism}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**confluent(cluster, mechanism), **reading})
    consumer.subscribe([mechanism])
    read: list[bytes] = []
    while len(read) < COUNT:
        message = consumer.poll(HUNG_S)
        assert message is not None, f"{read} within {HUNG_S} s"
        if message.error() is None:  # the other gateway may not know the topic yet
            read.append(message.value() or b"")
    consumer.close()
    other = subscribed(
        mechanism,
        group_id=f"p-{mechanism}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=HUNG_S * 1000,
        **python(cluster, mechanism),
    )
    again = [next(other).value for _ in range(COUNT)]
    other.close()
    assert sorted(read) == sorted(again) == sorted(b"%d" % number for number in range(COUNT))


async def test_aiokafka_writes_and_reads(cluster: Cluster) -> None:
    producer = AIOKafkaProducer(**python(cluster, "SCRAM-SHA-512"))
    await producer.start()
    await producer.send_and_wait("aiokafka", b"aiokafka", partition=2)
    await producer.stop()
    consumer = AIOKafkaConsumer(**python(cluster, "SCRAM-SHA-512"), auto_offset_reset="earliest")
    consumer.subscribe(["aiokafka"])
    await consumer.start()
    try:
        assert (await asyncio.wait_for(consumer.getone(), HUNG_S)).value == b"aiokafka"
    finally:
        await consumer.stop()


def test_a_session_is_renewed_without_another_connection(cluster: Cluster) -> None:
    failed: list[object] = []
    producer = Producer(confluent(cluster, "SCRAM-SHA-256"))

    def sent_and_renewed() -> bool:
        producer.produce("again", b"x", partition=1, on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(HUNG_S) == 0
        return counted(cluster, "successful_sasl_reauthentication_total") > before

    before = counted(cluster, "successful_sasl_reauthentication_total")
    until(sent_and_renewed, "a renewed session")
    assert set(failed) == {None}


async def test_raw_tokens_let_a_client_of_old_in(cluster: Cluster) -> None:
    at = Address.parse(cluster.bootstrap)
    sock = socket.create_connection((at.host, at.port))
    sock.setblocking(False)
    answers = await spoken(sock, [login(USER, PASSWORD, raw=True)], lambda found: len(found) == 2)
    assert answers[1] == b""


def test_a_wrong_password_and_no_login_get_nothing(cluster: Cluster) -> None:
    at, before = Address.parse(cluster.bootstrap), counted(cluster, "failed_sasl_authentication_total")
    with Raw(at.host, at.port) as connection:
        assert connection.ask(build(17, mechanism="PLAIN"), 1).error_code == 0
        assert connection.ask(build(36, auth_bytes=b"\0alice\0wrong"), 2).error_code == 58
        assert connection.is_closed_by_server()
    assert counted(cluster, "failed_sasl_authentication_total") == before + 1
    with Raw(at.host, at.port) as connection:
        connection.send(build(3, topics=[]), 9)
        assert connection.is_closed_by_server()

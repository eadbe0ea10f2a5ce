"""Clients over TLS (gateway.security.protocol=SSL), with certificates of their own: at a gateway and at a broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from support.certificates import Authority, Pair
from support.ports import free_ports
from tailrace.testing import Cluster

WAYS = {"at the gateway": {}, "at the broker": {"gateway.advertise": "brokers"}}
LARGE_BYTES = 900_000
LARGE_COUNT = 24


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Pair:
    return authority.sign("server", "/O=Example/CN=tailrace")


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Pair:
    return authority.sign("alice", "/O=Example/OU=eng/CN=alice")


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.replace(" ", "-"))
def cluster(request: pytest.FixtureRequest, authority: Authority, server: Pair) -> Iterator[Cluster]:
    settings = {
        "gateway.security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server.both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": "required",
    }
    with Cluster(port=free_ports(1), settings=settings | WAYS[request.param]) as running:
        admin = AdminClient(confluent(running, authority, request.getfixturevalue("alice")))
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in ("t", "large", "many")]).values():
            future.result(30)
        yield running


def confluent(cluster: Cluster, authority: Authority, client: Pair | None) -> dict[str, Any]:
    conf = {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.certificate),
    }
    if client is not None:
        conf |= {"ssl.key.location": str(client.key), "ssl.certificate.location": str(client.certificate)}
    return conf


def kafka_python(cluster: Cluster, authority: Authority, client: Pair) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": str(authority.certificate),
        "ssl_certfile": str(client.certificate),
        "ssl_keyfile": str(client.key),
    }


def test_kafka_python_produces_and_reads_in_a_group(cluster: Cluster, authority: Authority, alice: Pair) -> None:
    conf = kafka_python(cluster, authority, alice)
    producer = KafkaProducer(**conf)
    for number in range(1000):
        producer.send("t", b"%d" % number)
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer("t", group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=20_000, **conf)
    read = [next(consumer).value for _ in range(1000)]
    consumer.close()
    assert read == [b"%d" % number for number in range(1000)]


def test_librdkafka_produces_and_reads_what_is_large(cluster: Cluster, authority: Authority, alice: Pair) -> None:
    conf = confluent(cluster, authority, alice)
    producer = Producer({**conf, "message.max.bytes": 1_000_000})
    values = [bytes([number]) * LARGE_BYTES for number in range(LARGE_COUNT)]
    for value in values:
        producer.produce("large", value)
    assert producer.flush(60) == 0
    reading = {"group.id": "large", "auto.offset.reset": "earliest", "fetch.max.bytes": 50_000_000}
    consumer = Consumer({**conf, **reading, "max.partition.fetch.bytes": 20_000_000})
    consumer.subscribe(["large"])
    read = [message.value() for message in (consumer.poll(30) for _ in values) if message is not None]
    consumer.close()
    assert read == values


def test_many_requests_in_flight_are_answered(cluster: Cluster, authority: Authority, alice: Pair) -> None:
    failed: list[str] = []
    producer = Producer({**confluent(cluster, authority, alice), "batch.num.messages": 1, "linger.ms": 0})
    for number in range(6000):
        producer.produce(
            "many", b"%d" % number, on_delivery=lambda error, _: failed.append(str(error)) if error else None
        )
    assert producer.flush(60) == 0 and failed == []


def test_a_client_without_a_certificate_is_refused(cluster: Cluster, authority: Authority) -> None:
    said: list[str] = []
    conf = confluent(cluster, authority, None)
    producer = Producer({**conf, "error_cb": lambda error: said.append(error.str())})
    producer.produce("many", b"none")
    assert producer.flush(3) == 1
    assert any("certificate required" in line for line in said), said
    assert "peer did not return a certificate" in cluster.last_log()


def test_metadata_names_the_same_host_and_ports(cluster: Cluster, authority: Authority, alice: Pair) -> None:
    admin = KafkaAdminClient(**kafka_python(cluster, authority, alice))
    (broker,) = admin.describe_cluster()["brokers"]
    admin.close()
    told = cluster.addresses("broker").get("client", cluster.bootstrap).split(",")[0]
    assert f"{broker['host']}:{broker['port']}" == told

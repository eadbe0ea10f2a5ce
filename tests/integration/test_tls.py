"""Clients over TLS (gateway.security.protocol=SSL), with certificates of their own: at a gateway and at a broker."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from kafka import KafkaAdminClient, KafkaProducer

from integration.quota.load import alter_quotas
from support.certificates import Authority, Pair, listener_settings
from support.ports import free_ports
from support.subscribing import subscribed
from support.tls_client import TlsClient, client_tls
from support.waiting import HUNG_S, until
from tailrace.config import properties
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.net.tls.client_settings import client_context
from tailrace.testing import Cluster

WAYS = {"at the gateway": {}, "at the broker": {"gateway.advertise": "brokers"}}
LARGE_BYTES = 900_000
LARGE_COUNT = 24


# Clients alone live in this process. kafka-python 3.0.12 closes no socket whose handshake is cut short by its own close
# (KafkaConnectionManager._build_transport): it is left to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.replace(" ", "-"))
def cluster(request: pytest.FixtureRequest, authority: Authority, server: Pair) -> Iterator[Cluster]:
    settings = listener_settings(server, authority)
    with Cluster(port=free_ports(1), settings=settings | WAYS[request.param]) as running:
        admin = AdminClient(confluent(running, authority, request.getfixturevalue("alice")))
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in ("t", "large", "many")]).values():
            future.result(HUNG_S)
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
    producer.flush(HUNG_S)
    producer.close()
    consumer = subscribed("t", group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=HUNG_S * 1000, **conf)
    read = [next(consumer).value for _ in range(1000)]
    consumer.close()
    assert read == [b"%d" % number for number in range(1000)]


def test_librdkafka_produces_and_reads_what_is_large(cluster: Cluster, authority: Authority, alice: Pair) -> None:
    conf = confluent(cluster, authority, alice)
    producer = Producer({**conf, "message.max.bytes": 1_000_000})
    values = [bytes([number]) * LARGE_BYTES for number in range(LARGE_COUNT)]
    for value in values:
        producer.produce("large", value)
    assert producer.flush(HUNG_S) == 0
    reading = {"group.id": "large", "auto.offset.reset": "earliest", "fetch.max.bytes": 50_000_000}
    consumer = Consumer({**conf, **reading, "max.partition.fetch.bytes": 20_000_000})
    consumer.subscribe(["large"])
    read = [message.value() for message in (consumer.poll(HUNG_S) for _ in values) if message is not None]
    consumer.close()
    assert read == values


def test_many_requests_in_flight_are_answered(cluster: Cluster, authority: Authority, alice: Pair) -> None:
    failed: list[str] = []
    producer = Producer({**confluent(cluster, authority, alice), "batch.num.messages": 1, "linger.ms": 0})
    for number in range(6000):
        producer.produce(
            "many", b"%d" % number, on_delivery=lambda error, _: failed.append(str(error)) if error else None
        )
    assert producer.flush(HUNG_S) == 0 and failed == []


def test_a_client_without_a_certificate_is_refused(cluster: Cluster, authority: Authority) -> None:
    said: list[str] = []
    conf = confluent(cluster, authority, None)
    producer = Producer({**conf, "error_cb": lambda error: said.append(error.str())})
    producer.produce("many", b"none")
    until(lambda: producer.flush(0.1) == 1 and any("certificate required" in line for line in said), "the refusal")
    until(lambda: "peer did not return a certificate" in cluster.last_log(), "a line of the log")
    until(lambda: cluster.metric("tailrace_failed_tls_handshakes_total", "gateway") > 0, "the count of the gateway")


def test_metadata_names_the_same_host_and_ports(cluster: Cluster, authority: Authority, alice: Pair) -> None:
    admin = KafkaAdminClient(**kafka_python(cluster, authority, alice))
    (broker,) = admin.describe_cluster()["brokers"]
    admin.close()
    told = cluster.addresses("broker").get("client", cluster.bootstrap).split(",")[0]
    assert f"{broker['host']}:{broker['port']}" == told


def client_file(tmp_path: Path, authority: Authority, client: Pair) -> Path:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.keystore.type=PEM\n"
        f"ssl.truststore.location={authority.certificate}\nssl.keystore.location={client.both}\n"
    )
    return file


def command(cluster: Cluster, *words: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "TAILRACE_BOOTSTRAP": cluster.bootstrap}
    argv = [sys.executable, "-m", "tailrace.cli", *words]
    return subprocess.run(argv, check=False, input=lines, capture_output=True, text=True, timeout=HUNG_S, env=environ)


def test_commands_connect_by_the_settings_of_a_kafka_client(
    cluster: Cluster, authority: Authority, alice: Pair, tmp_path: Path
) -> None:
    by = ("--command-config", str(client_file(tmp_path, authority, alice)))
    assert command(cluster, *by, "topic", "create", "typed").returncode == 0
    assert "typed" in command(cluster, *by, "topic", "list").stdout
    assert command(cluster, *by, "produce", "typed", lines="one\ntwo\n").returncode == 0
    read = command(cluster, *by, "consume", "typed", "--from-beginning", "--count", "2")
    assert read.stdout == "one\ntwo\n", read.stderr
    plain = command(cluster, "topic", "list")
    assert plain.returncode == 1 and "--command-config" in plain.stderr


def test_secrets_are_not_shown(cluster: Cluster, authority: Authority, alice: Pair) -> None:
    admin = AdminClient(confluent(cluster, authority, alice))
    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "0")]).values()
    told = future.result(HUNG_S)
    for key in ("ssl.keystore.key", "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.truststore.password"):
        assert told[key].value is None and told[key].is_sensitive
    assert told["gateway.security.protocol"].value == "SSL"
    assert "PRIVATE KEY" not in cluster.log_path.read_text()


@pytest.fixture(scope="module")
def bob(authority: Authority) -> Pair:
    return authority.sign("bob", "/O=Example/CN=bob")


def throttle_times(conf: dict[str, Any]) -> list[float]:
    """Each request is more than may be saved up of the quota below; what librdkafka was told, in seconds."""
    told: list[float] = []
    producer = Producer({**conf, "linger.ms": 5, "throttle_cb": lambda event: told.append(event.throttle_time)})
    for _ in range(15):
        producer.produce("many", bytes(8000))
        producer.flush(HUNG_S)
    assert len(producer) == 0
    return told


async def test_a_users_quota_holds_for_the_certificate_that_has_the_name(
    cluster: Cluster, authority: Authority, alice: Pair, bob: Pair, tmp_path: Path
) -> None:
    """Apache Kafka's name of the subject /O=Example/OU=eng/CN=alice; wherever the socket is, it is charged."""
    given = properties.parse(client_file(tmp_path, authority, alice).read_text())
    tls = client_context({name: value for name, (value, _) in given.items()}, 0)
    over = Client(Address.parse(cluster.bootstrap), "quota-admin", tls=tls)
    try:
        assert await alter_quotas(over, {"user": "CN=alice,OU=eng,O=Example"}, producer_byte_rate=50_000.0) == (
            0,
            None,
        )
        limited, free = [
            await asyncio.to_thread(throttle_times, confluent(cluster, authority, who)) for who in (alice, bob)
        ]
        assert max(limited) > 0 and not any(free)
        await alter_quotas(over, {"user": "CN=alice,OU=eng,O=Example"}, producer_byte_rate=None)
    finally:
        await over.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "/nowhere.pem"}, "/nowhere.pem cannot be read"),
        ({"ssl.keystore.location": "/nowhere.jks"}, "openssl pkcs12 -in store.p12"),
        ({}, "needs ssl.keystore.location"),
    ],
)
def test_up_refuses_what_cannot_be_used_in_one_sentence(settings: dict[str, str], said: str, tmp_path: Path) -> None:
    words = [
        "up",
        "--data",
        str(tmp_path),
        "--port",
        "0",
        "--admin-port",
        "0",
        "--set",
        "gateway.security.protocol=SSL",
    ]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    done = subprocess.run(
        [sys.executable, "-m", "tailrace.cli", *words], check=False, capture_output=True, text=True, timeout=HUNG_S
    )
    assert done.returncode == 1 and said in done.stderr and done.stderr.count("\n") == 1


def greeted(address: Address, tls: ssl.SSLContext) -> bool:
    """Whether a new connection has its handshake."""
    try:
        with TlsClient(socket.create_connection((address.host, address.port)), tls, address.host) as client:
            client.handshake()
    except OSError:
        return False
    return True


async def twenty(address: Address, tls: ssl.SSLContext) -> list[bool]:
    """Of twenty new connections at once, which have their handshake."""
    with ThreadPoolExecutor(20) as threads:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(threads, greeted, address, tls) for _ in range(20)))


async def test_an_address_gets_its_rate_of_connections_and_the_others_no_handshake(
    cluster: Cluster, authority: Authority, alice: Pair
) -> None:
    """KIP-612, where the client's socket is."""
    told = Address.parse(cluster.addresses("broker").get("client", cluster.bootstrap).split(",")[0])
    tls = client_tls(authority.certificate, alice)
    over = Client(Address.parse(cluster.bootstrap), "quota-admin", tls=tls)
    try:
        await alter_quotas(over, {"ip": told.host}, connection_creation_rate=2.0)
        while False not in await twenty(told, tls):  # until the process that has the port has heard of it
            pass
        many = await twenty(told, tls)
        assert sum(many) <= 8 and False in many
        await asyncio.to_thread(until, lambda: greeted(told, tls), "a connection within the rate")
        await alter_quotas(over, {"ip": told.host}, connection_creation_rate=None)
    finally:
        await over.close()
    while not all(await twenty(told, tls)):
        pass

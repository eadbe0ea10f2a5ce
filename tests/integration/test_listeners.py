"""Several listeners of one cluster, each with its own addresses, protocol and logins; one has a port for all nodes."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from support.listeners import Listeners, resolve_here, three_listeners
from support.ports import HOST
from support.subscribing import subscribed
from support.waiting import HUNG_S
from tailrace.config import properties
from tailrace.testing import Cluster

# Clients alone live in this process. kafka-python 3.0.12 closes no socket whose handshake is cut short by its own close
# (KafkaConnectionManager._build_transport): it is left to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)
TOPIC, PARTITIONS = "t", 4


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[Listeners, Cluster]]:
    ports, cluster = three_listeners()
    with cluster:
        admin = AdminClient({"bootstrap.servers": f"{HOST}:{ports.plain}"})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
            future.result(HUNG_S)
        yield ports, cluster


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolve_here)


def login(cluster: Cluster, bootstrap: str) -> dict[str, Any]:
    """Of kafka-python, which checks that the certificate names the host."""
    return {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "admin",
        "sasl_plain_password": (cluster.data_dir / "clients" / "admin.password").read_text().strip(),
        "ssl_cafile": str(cluster.data_dir / "clients" / "ca.crt"),
    }


def told(conf: dict[str, Any]) -> list[tuple[str, int]]:
    admin = KafkaAdminClient(**conf)
    brokers = admin.describe_cluster()["brokers"]
    admin.close()
    return sorted((broker["host"], broker["port"]) for broker in brokers)


def test_a_client_is_told_the_addresses_of_its_listener(started: tuple[Listeners, Cluster], names: None) -> None:
    ports, cluster = started
    assert told({"bootstrap_servers": f"{HOST}:{ports.plain}"}) == [(HOST, ports.plain), (HOST, ports.plain + 1)]
    by_ports = login(cluster, f"{HOST}:{ports.external}")
    assert told(by_ports) == [(HOST, ports.external), (HOST, ports.external + 1)]
    assert told(login(cluster, ports.bootstrap)) == [ports.told(0), ports.told(1)]


def test_one_port_leads_to_every_node(started: tuple[Listeners, Cluster], names: None) -> None:
    ports, cluster = started
    conf = login(cluster, ports.bootstrap)
    producer = KafkaProducer(**conf)
    for number in range(40):
        producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    producer.flush(HUNG_S)
    producer.close()
    consumer = subscribed(TOPIC, group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=HUNG_S * 1000, **conf)
    read = sorted(int(next(consumer).value) for _ in range(40))
    consumer.close()
    assert read == list(range(40))
    known = AdminClient({"bootstrap.servers": f"{HOST}:{ports.plain}"}).list_topics(TOPIC, HUNG_S)
    assert {partition.leader for partition in known.topics[TOPIC].partitions.values()} == {0, 1}


def test_librdkafka_logs_in_beside_a_plain_client(started: tuple[Listeners, Cluster]) -> None:
    ports, cluster = started
    file = cluster.data_dir / "clients" / "librdkafka.properties"
    conf = {key: value for key, (value, _) in properties.parse(file.read_text()).items()}
    assert conf["bootstrap.servers"] == f"{HOST}:{ports.external}"  # the first with SASL_SSL
    producer = Producer(conf)
    producer.produce(TOPIC, b"1000", partition=0)
    assert producer.flush(HUNG_S) == 0
    plain = KafkaConsumer(bootstrap_servers=f"{HOST}:{ports.plain}", consumer_timeout_ms=HUNG_S * 1000)
    plain.assign([TopicPartition(TOPIC, 0)])
    plain.seek_to_beginning()
    assert next(message for message in plain if message.value == b"1000")
    plain.close()


def test_status_names_the_listeners(started: tuple[Listeners, Cluster]) -> None:
    ports, cluster = started
    told_of = cluster.addresses("gateway")["client"].split(",")
    assert told_of == [
        f"LOCAL://{HOST}:{ports.plain}",
        f"EXTERNAL://{HOST}:{ports.external}",
        f"NODES://{HOST}:{ports.nodes}",
    ]
    command = [sys.executable, "-m", "tailrace.cli", "status", "--json", "--data", str(cluster.data_dir)]
    command[3:3] = ["--command-config", str(cluster.data_dir / "clients" / "client.properties")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HUNG_S)
    addresses = [row["addresses"] for row in json.loads(shown.stdout)["processes"] if row["process"] == "gateway-0"]
    assert addresses and ",".join(told_of) in addresses[0]

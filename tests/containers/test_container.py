"""`TailraceContainer`, as a person's own tests use it, and the example of docs/testing.md as it is written there."""

from __future__ import annotations

import json
import re
import urllib.request
from contextlib import closing

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaProducer
from testcontainers.core.network import Network

from support import docker_engine
from support.commands import ROOT
from support.docker_engine import docker
from support.subscribing import subscribed
from tailrace.testing import TailraceContainer

pytestmark = pytest.mark.timeout(600)


class PatientNetwork(Network):
    """Goes when the engine has let go of its last container."""

    def remove(self) -> None:
        docker_engine.remove_network(self.name)


def test_the_example_of_the_page_runs() -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"<!-- test_in_a_container.py -->\n```python\n(.*?)```", page, re.DOTALL)
    assert example.count('TailraceContainer("tailrace")') == 1
    names: dict[str, object] = {}
    exec(example.replace('"tailrace"', repr(docker_engine.TAILRACE)), names)
    test = names["test_an_order_is_read_in_a_container"]
    assert callable(test)
    test()


def test_clients_reach_every_one_of_several_brokers() -> None:
    with TailraceContainer(docker_engine.TAILRACE, brokers=3) as tailrace:
        bootstrap = tailrace.get_bootstrap_server()
        host, _, port = bootstrap.rpartition(":")
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            described = admin.describe_cluster()
        nodes = {(node["host"], node["port"]) for node in described["brokers"]}
        assert nodes == {(host, int(port) + number) for number in range(3)}
        with KafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
            for number in range(20):
                producer.send("orders", b"%d" % number).get(60)
        librdkafka = Producer({"bootstrap.servers": bootstrap})
        librdkafka.produce("orders", b"20")
        assert librdkafka.flush(60) == 0
        with closing(
            subscribed("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=60_000)
        ) as consumer:
            assert {next(consumer).value for _ in range(21)} == {b"%d" % number for number in range(21)}


def test_settings_reach_the_cluster_and_the_admin_url_answers() -> None:
    with (
        TailraceContainer(docker_engine.TAILRACE, settings={"num.partitions": "5"}) as tailrace,
        KafkaProducer(bootstrap_servers=tailrace.get_bootstrap_server()) as producer,
    ):
        producer.send("orders", b"v").get(60)
        assert producer.partitions_for("orders") == set(range(5))
        with urllib.request.urlopen(f"{tailrace.get_admin_url()}/v3/clusters", timeout=60) as answer:
            assert len(json.load(answer)["data"]) == 1


def test_two_at_once_do_not_meet() -> None:
    with TailraceContainer(docker_engine.TAILRACE) as first, TailraceContainer(docker_engine.TAILRACE) as second:
        for container, value in ((first, b"1"), (second, b"2")):
            with KafkaProducer(bootstrap_servers=container.get_bootstrap_server()) as producer:
                assert producer.send("orders", value).get(60).offset == 0


def test_clients_in_other_containers_of_its_network_use_its_alias() -> None:
    image = docker_engine.TAILRACE
    with (
        PatientNetwork() as network,
        TailraceContainer(image, brokers=2, advertise=False, network=network, network_aliases=["kafka"]),
    ):
        options = ("run", "--rm", "-i", "--network", network.name, "-e", "TAILRACE_BOOTSTRAP=kafka:9092", image)
        docker(*options, "topic", "create", "orders", "--partitions", "2")
        docker(*options, "produce", "orders", typed="apple\npear\nplum\nfig\n")
        read = docker(*options, "consume", "orders", "--count", "4", "--from-beginning")
    assert set(read.split()) == {"apple", "pear", "plum", "fig"}

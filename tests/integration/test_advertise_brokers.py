"""gateway.advertise=brokers: clients are told the brokers' own listeners, which relay what is not theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from support.ports import free_ports
from tailrace.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"gateway.advertise": "brokers", "offsets.topic.num.partitions": "4"}
    with Cluster(brokers=3, port=free_ports(3), settings=settings) as running:
        yield running


def test_a_client_sees_the_brokers_own_ports_and_works_through_them(cluster: Cluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        brokers = admin.describe_cluster()["brokers"]
        told = {broker["broker_id"]: f"{broker['host']}:{broker['port']}" for broker in brokers}
        own = {n: cluster.addresses("broker", n)["client"].split(",") for n in range(3)}
        assert all(told[n] in own[n] for n in range(3))
        admin.create_topics({"direct": {"num_partitions": 6, "replication_factor": 1}})
    finally:
        admin.close()
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    sent = [producer.send("direct", b"%d" % i, key=b"%d" % i) for i in range(300)]
    assert {future.get(20).partition for future in sent} == set(range(6))
    producer.close()
    options = {"group_id": "direct-group", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = KafkaConsumer("direct", bootstrap_servers=told[2], **options)
    try:
        read: set[bytes] = set()
        while len(read) < 300:
            read |= {r.value for rows in consumer.poll(timeout_ms=20_000).values() for r in rows}
        consumer.commit()
        assert sum(consumer.committed(place) or 0 for place in consumer.assignment()) == 300
    finally:
        consumer.close()


def test_a_broker_that_comes_back_has_its_clients_port_again(cluster: Cluster) -> None:
    before = cluster.addresses("broker", 1)["client"]
    mark = cluster.kill("broker", 1)
    cluster.wait_for("opened", "broker", 1, since=mark)
    again = cluster.wait_for("ready", "broker", 1, since=mark)
    assert again["addresses"]["client"] == before

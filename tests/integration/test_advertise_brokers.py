"""gateway.advertise=brokers: clients are told the brokers' own listeners, which relay what is not theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from support.abuse import Body, framed_request, split_address
from support.ports import free_ports
from support.raw import Raw, build
from support.subscribing import subscribed
from support.waiting import HUNG_S, until
from tailrace.testing import Cluster
from tailrace.wire import codec
from tailrace.wire.apis import APIS, INTERNAL_APIS

CLUSTER_AUTHORIZATION_FAILED = 31


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"gateway.advertise": "brokers", "offsets.topic.num.partitions": "4"}
    with Cluster(brokers=3, port=free_ports(3), settings=settings) as running:
        yield running


def test_a_client_sees_the_brokers_own_ports_and_works_through_them(cluster: Cluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        brokers = until(
            lambda: found if len(found := admin.describe_cluster()["brokers"]) == 3 else None, "three brokers"
        )
        told = {broker["broker_id"]: f"{broker['host']}:{broker['port']}" for broker in brokers}
        own = {n: cluster.addresses("broker", n)["client"].split(",") for n in range(3)}
        assert all(told[n] in own[n] for n in range(3))
        admin.create_topics({"direct": {"num_partitions": 6, "replication_factor": 1}})
    finally:
        admin.close()
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    sent = [producer.send("direct", b"%d" % i, key=b"%d" % i) for i in range(300)]
    assert {future.get(HUNG_S).partition for future in sent} == set(range(6))
    producer.close()
    options = {"group_id": "direct-group", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = subscribed("direct", bootstrap_servers=told[2], **options)
    try:
        read: set[bytes] = set()
        while len(read) < 300:
            read |= {r.value for rows in consumer.poll(timeout_ms=20_000).values() for r in rows}
        consumer.commit()
        assert sum(consumer.committed(place) or 0 for place in consumer.assignment()) == 300
    finally:
        consumer.close()


def doors(cluster: Cluster) -> list[tuple[str, int]]:
    """The gateway's port of each broker, and each broker's own."""
    host, port = split_address(cluster.bootstrap.partition(",")[0])
    own = [cluster.addresses("broker", node)["client"].partition(",")[0] for node in range(3)]
    return [*((host, port + node) for node in range(3)), *map(split_address, own)]


def test_what_roles_say_to_each_other_is_served_at_no_door(cluster: Cluster) -> None:
    """AlterPartition, FenceShard and the like, in every version."""
    private = [INTERNAL_APIS[key] for key in sorted(set(INTERNAL_APIS) - set(APIS))]
    for address in doors(cluster):
        for api in private:
            for version in range(api.min_version, api.max_version + 1):
                body = codec.encode_response_body(api.request(), version)
                with Raw(*address) as client:
                    client.send_bytes(framed_request(Body(api.key, version, body), 1, "stranger"))
                    assert client.is_closed_by_server(), (address, api.key, version)


@pytest.mark.parametrize(("version", "replica"), [(11, {"replica_id": 1}), (17, {"replica_state": {"replica_id": 1}})])
def test_a_client_that_calls_itself_a_broker_is_refused_at_every_door(
    cluster: Cluster, version: int, replica: dict[str, Any]
) -> None:
    for address in doors(cluster):
        with Raw(*address) as client:
            request = build(1, max_wait_ms=0, min_bytes=0, max_bytes=1000, session_epoch=-1, topics=[], **replica)
            assert client.ask(request, version).error_code == CLUSTER_AUTHORIZATION_FAILED, address


def test_a_broker_that_comes_back_has_its_clients_port_again(cluster: Cluster) -> None:
    before = cluster.addresses("broker", 1)["client"]
    mark = cluster.kill("broker", 1)
    cluster.wait_for("opened", "broker", 1, since=mark)
    again = cluster.wait_for("ready", "broker", 1, since=mark)
    assert again["addresses"]["client"] == before

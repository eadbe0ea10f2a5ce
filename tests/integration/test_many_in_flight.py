"""Clients that send far more requests than are handled at once: relayed, handed over, at a broker's own port."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.batches import batch
from support.ports import free_ports
from support.raw import Raw, build
from support.stage import leads
from support.waiting import HUNG_S, until
from tailrace.testing import Cluster

BATCHES = 12_288
PRODUCE = 0
WAYS = {
    "relayed": {"gateway.handover": "false"},
    "handed over": {"gateway.handover": "true"},
    "at the broker": {"gateway.advertise": "brokers"},
}


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.replace(" ", "-"))
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(port=free_ports(1), settings=WAYS[request.param]) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for future in admin.create_topics([NewTopic("t", 1, 1)]).values():
            future.result(HUNG_S)
        yield running


def test_librdkafka_with_its_default_max_in_flight_is_not_left_waiting(cluster: Cluster) -> None:
    """1,000,000 requests may be in flight; batches of one record make as many small requests as records."""
    failed: list[str] = []
    settings = {"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 1, "linger.ms": 0}
    producer = Producer(settings)

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(str(error))

    for number in range(BATCHES):
        producer.produce("t", b"%d" % number, on_delivery=delivered)
    assert producer.flush(HUNG_S) == 0, "requests were sent and not answered"
    assert failed == []


def test_a_thousand_requests_before_a_half_close_are_answered(cluster: Cluster) -> None:
    host, _, port = cluster.bootstrap.rpartition(":")
    partition = {"index": 0, "records": batch(b"a")}
    request = build(
        PRODUCE,
        transactional_id=None,
        acks=1,
        timeout_ms=5000,
        topic_data=[{"name": "t", "partition_data": [partition]}],
    )
    with Raw(host, int(port)) as client:
        until(lambda: leads(client, "t"), "the topic is led")
        sent = [client.send(request, 9) for _ in range(1000)]
        client.socket.shutdown(socket.SHUT_WR)
        for correlation_id in sent:
            (topic,) = client.receive(PRODUCE, 9, correlation_id).responses
            assert topic.partition_responses[0].error_code == 0
        assert client.is_closed_by_server()

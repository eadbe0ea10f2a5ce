"""gateway.handover with real processes: who is killed takes with it only what was its own."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from support.batches import batch
from support.raw import Raw, build
from support.waiting import HUNG_S, until
from tailrace.testing import Cluster

METADATA, PRODUCE, CREATE_TOPICS, ALTER_CLIENT_QUOTAS = 3, 0, 19, 49
NOT_YET = (3, 5, 6)  # UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(settings={"gateway.handover": "true", "offsets.topic.num.partitions": "1"}) as running:
        yield running


def connect(cluster: Cluster) -> Raw:
    host, _, port = cluster.bootstrap.rpartition(":")
    return Raw(host, int(port))


def produce(client: Raw) -> int:
    """One record; its offset."""
    return appended(client)[0]


def appended(client: Raw) -> tuple[int, int]:
    """One record's (offset, throttle_time_ms)."""
    partition = {"index": 0, "records": batch(b"a")}
    request = build(
        PRODUCE,
        transactional_id=None,
        acks=1,
        timeout_ms=5000,
        topic_data=[{"name": "t", "partition_data": [partition]}],
    )

    def taken() -> tuple[int, int] | None:
        response = client.ask(request, 9)
        (topic,) = response.responses
        (row,) = topic.partition_responses
        if row.error_code in NOT_YET:
            return None
        assert row.error_code == 0
        return int(row.base_offset), int(response.throttle_time_ms)

    return until(taken, "the leader of a new topic knows it")


def metric(cluster: Cluster, role: str, name: str) -> float:
    text = urllib.request.urlopen(f"http://{cluster.addresses(role)['http']}/metrics", timeout=HUNG_S).read().decode()
    (line,) = [line for line in text.splitlines() if line.startswith(f"tailrace_{name} ")]
    return float(line.split()[1])


def topics(client: Raw) -> list[Any]:
    names: list[Any] = [topic.name for topic in client.ask(build(METADATA, topics=None), 8).topics]
    return names


def create_topic(client: Raw) -> None:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    client.ask(build(CREATE_TOPICS, topics=[topic], timeout_ms=5000, validate_only=False), 5)


def test_a_quota_set_later_slows_a_client_down_on_the_connection_it_has(cluster: Cluster) -> None:
    limit = {
        "entity": [{"entity_type": "client-id", "entity_name": "raw"}],
        "ops": [{"key": "producer_byte_rate", "value": 50.0, "remove": False}],
    }
    with connect(cluster) as client, connect(cluster) as admin:
        create_topic(admin)
        assert appended(client) == (0, 0)
        assert metric(cluster, "gateway", "handed_over_connections") == 1
        (entry,) = admin.ask(build(ALTER_CLIENT_QUOTAS, entries=[limit], validate_only=False), 1).entries
        assert entry.error_code == 0
        offset, throttle_time_ms = 0, 0
        while not throttle_time_ms:  # until the broker has heard of it
            before = offset
            offset, throttle_time_ms = appended(client)
            assert offset == before + 1
        assert metric(cluster, "gateway", "handed_over_connections") == 1
        assert metric(cluster, "broker", "throttle_time_seconds_total") > 0


def test_the_data_path_outlives_the_gateway_and_ends_with_the_broker(cluster: Cluster) -> None:
    with connect(cluster) as client:
        create_topic(client)
        assert produce(client) == 0
        assert metric(cluster, "gateway", "handovers_total") == 1
        assert metric(cluster, "gateway", "handed_over_connections") == 1
        assert metric(cluster, "broker", "adopted_connections") == 1
        mark = cluster.kill("gateway")
        assert produce(client) == 1
        cluster.wait_for("ready", "gateway", since=mark)
        assert topics(client) == ["t"]
        assert produce(client) == 2
        cluster.kill("broker")
        assert client.is_closed_by_server()

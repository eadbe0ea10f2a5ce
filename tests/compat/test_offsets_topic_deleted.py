"""Clients may delete `__consumer_offsets`, in Apache Kafka too; on a cluster of its own: all groups are gone then."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kafka_peer import KafkaPeer
from support.raw import build
from support.stage import coordinator, unique, wait_for_topic
from support.targets import SETTINGS, WAYS, Target
from tailrace.testing import Cluster

OFFSETS_TOPIC, CLUSTER_METADATA = "__consumer_offsets", "__cluster_metadata"
UNKNOWN_TOPIC_OR_PARTITION = 3


@pytest.fixture
def fresh(target: Target, tmp_path: Path) -> Iterator[Target]:
    cluster: KafkaPeer | Cluster
    if target.is_kafka:
        cluster = KafkaPeer(tmp_path, SETTINGS)
    else:
        cluster = Cluster(brokers=1, data_dir=tmp_path, settings=SETTINGS | WAYS.get(target.name, {}))
    try:
        cluster.start()
        host, _, port = cluster.bootstrap.rpartition(":")
        yield Target(target.name, host, int(port), tmp_path)
    finally:
        cluster.stop()


@pytest.mark.capability("the offsets topic may be deleted, and its next use creates it again")
@pytest.mark.only("tailrace1", "kafka")
def test_the_offsets_topic_may_be_deleted_and_its_next_use_makes_it_anew(fresh: Target) -> None:
    def delete(name: str) -> int:
        request = build(20, topics=[{"name": name, "topic_id": None}], timeout_ms=9000)
        return int(fresh.ask(request, 6).responses[0].error_code)

    coordinator(fresh, unique("group"))
    before = wait_for_topic(fresh, OFFSETS_TOPIC)
    assert (delete(OFFSETS_TOPIC), delete(CLUSTER_METADATA)) == (0, UNKNOWN_TOPIC_OR_PARTITION)
    coordinator(fresh, unique("group"))
    after = wait_for_topic(fresh, OFFSETS_TOPIC, former=before.topic_id)
    assert len(after.leaders) == len(before.leaders)

"""Every service in a container of its own, over TCP: killed, paused and cut off under load, one of each kind.

Nothing that was acknowledged is lost: records of an idempotent producer, and offsets of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from support.compose import ComposeCluster
from support.load import Load, check, read_all
from support.waiting import until
from support.worker import Worker
from tailrace.testing import admin

pytestmark = [
    pytest.mark.timeout(900),
    # kafka-python forgets sockets whose connection hung before it was made.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PARTITIONS = 3
SOON = {"request_timeout_ms": 5_000, "delivery_timeout_ms": 240_000}
PATIENCE_S = 240
ACTIVE = "the active controller"
KINDS = ("broker-1", "gateway-0", ACTIVE, "coordinator-0", "quota-0", "postgres", "redis")
FAULTS = ("crash", "pause", "cut")


@pytest.fixture(scope="module")
def cluster() -> Iterator[ComposeCluster]:
    with ComposeCluster() as started:
        yield started


@pytest.fixture
def topic(cluster: ComposeCluster, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    until(lambda: is_created(cluster, name), f"{name} is created")
    cluster.wait_until_replicated(name)
    return name


def is_created(cluster: ComposeCluster, name: str) -> bool:
    """Whether it is there; a controller that has just taken over may not have heard of all brokers yet."""
    try:
        admin.create_topic(cluster.bootstrap, name, PARTITIONS, 3, {})
    except admin.Refused as refused:
        return "TOPIC_ALREADY_EXISTS" in str(refused)
    return True


class Commits(Worker):
    """A thread that commits 1, 2, 3, … for a group, from `with` to its end; `acknowledged`: the last that was taken."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        super().__init__("commits")
        self.acknowledged = 0
        self._place = TopicPartition(topic, 0)
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, request_timeout_ms=5_000
        )
        self._consumer.assign([self._place])

    def _close(self) -> None:
        self._consumer.close()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            try:
                self._consumer.commit({self._place: OffsetAndMetadata(number, "", -1)}, timeout_ms=10_000)
            except KafkaError:
                continue
            self.acknowledged = number


def hurt(cluster: ComposeCluster, service: str, fault: str) -> Callable[[], None]:
    """Does it; returns what mends it."""
    if fault == "pause":
        cluster.pause(service)
        return lambda: cluster.resume(service)
    if fault == "cut":
        # The gateways' network is that of the container `address`.
        networked = "address" if service.startswith("gateway") else service
        cluster.cut(networked)
        return lambda: cluster.mend(networked)
    if service in {"postgres", "redis"}:
        cluster.kill(service)
        return lambda: cluster.start(service)
    cluster.crash(service)
    return lambda: None


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_acknowledged_is_lost_and_the_cluster_heals(
    cluster: ComposeCluster, topic: str, kind: str, fault: str
) -> None:
    service = cluster.active_controller() if kind == ACTIVE else kind
    with (
        Load(cluster.bootstrap, topic, **SOON) as load,
        Commits(cluster.bootstrap, f"group-of-{topic}", topic) as commits,
    ):
        load.wait_for(300, PATIENCE_S)
        mend = hurt(cluster, service, fault)
        if (service, fault) != ("gateway-0", "cut"):  # without a network no client reaches any gateway
            load.wait_for(300, PATIENCE_S)
        mend()
        cluster.wait_until_well(service)
        load.wait_for(300, PATIENCE_S)
        cluster.wait_until_replicated(topic)
    assert load.promised.failed == []
    check(load.promised, read_all(cluster.bootstrap, topic))
    assert commits.acknowledged > 0
    assert committed(cluster, f"group-of-{topic}", topic) >= commits.acknowledged


def committed(cluster: ComposeCluster, group: str, topic: str) -> int:
    with closing(KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=group)) as consumer:
        found = consumer.committed(TopicPartition(topic, 0))
    assert isinstance(found, int)
    return found


def test_a_service_that_crashes_is_started_again_by_docker(cluster: ComposeCluster) -> None:
    before = cluster.restarts("broker-0")
    cluster.crash("broker-0")
    cluster.wait_until_well("broker-0")
    assert cluster.restarts("broker-0") == before + 1


def test_services_meet_over_proven_connections_alone(cluster: ComposeCluster) -> None:
    for service in ("controller-0", "broker-0", "coordinator-0"):
        (line,) = (
            line
            for line in cluster.metrics(service).splitlines()
            if line.startswith("tailrace_successful_authentication_total ")
        )
        assert float(line.split()[1]) > 0, service

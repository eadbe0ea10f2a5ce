"""The controller's metrics on an image where something of everything is wrong."""

from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry

from support.metadata import after, cluster, replicated, topic_id
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage
from tailrace_controller.decide.election_counts import ElectionCounts, counted
from tailrace_controller.deferred_queue import DeferredQueue
from tailrace_controller.metrics import ControllerMetrics
from tailrace_controller.role import ControllerRole
from tailrace_controller.sessions.watch import REFUSED, SILENT

IMAGE = after(
    cluster(4),
    *replicated("well", 1),
    *replicated("away", 2, leader=1),
    *replicated("offline", 3, isr=(), leader=-1),
    *replicated("moving", 4),
    r.PartitionChangeRecord(0, topic_id(4), replicas=(0, 1, 2, 3), adding_replicas=(3,)),
    r.BrokerRegistrationChangeRecord(3, 13, fenced=1),
    r.BrokerRegistrationChangeRecord(2, 12, in_controlled_shutdown=1),
)


def scraped(image: MetadataImage, counts: ElectionCounts) -> dict[str, float]:
    controller: Any = SimpleNamespace(
        lease_age_ms=120.0,
        refusal="",
        leader=(0, 7, ""),
        committed=image,
        active=True,
        epoch=7,
        deferred=DeferredQueue(),
        appends=3,
        resignations=1,
        counts=counts,
    )
    watch = SimpleNamespace(fenced={REFUSED: 2, SILENT: 1}, connection_breaks=5, false_fences=4)
    mutations = SimpleNamespace(throttled_count=9)
    periodic = SimpleNamespace(preferred_elections=6)
    role = SimpleNamespace(controller=controller, watch=watch, periodic=periodic, mutations=mutations)
    registry = CollectorRegistry()
    ControllerMetrics(registry, cast(ControllerRole, role))
    return {
        sample.name + "".join(sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def test_an_image_is_told_in_kafkas_words() -> None:
    found = scraped(IMAGE, ElectionCounts())
    expected = {
        "active_controllers": 1,
        "throttled_mutations_total": 9,
        "controller_epoch": 7,
        "controller_lease_age_seconds": 0.12,
        "metadata_refused": 0,
        "last_known_leader_epoch": 7,
        "active_brokers": 3,
        "fenced_brokers": 1,
        "controlled_shutdown_brokers": 1,
        "offline_partitions": 1,
        "preferred_replica_imbalance": 2,
        "reassigning_partitions": 1,
        "global_partitions": 4,
        "broker_fences_totalrefused": 2,
        "broker_fences_totalsilent": 1,
        "false_fences_total": 4,
        "heartbeat_connection_breaks_total": 5,
        "preferred_leader_elections_total": 6,
    }
    assert {name: found[f"tailrace_{name}"] for name in expected} == expected


def test_elections_are_counted_as_they_are_decided() -> None:
    records = [
        r.PartitionChangeRecord(0, topic_id(1), isr=(1,)),
        r.PartitionChangeRecord(0, topic_id(1), leader=1),
        r.PartitionChangeRecord(1, topic_id(1), leader=-1),
        r.PartitionChangeRecord(2, topic_id(1), leader=0, isr=(0,), leader_recovery_state=1),
    ]
    found = scraped(IMAGE, counted(records))
    assert (found["tailrace_leader_elections_total"], found["tailrace_unclean_leader_elections_total"]) == (2, 1)

"""An operator's first questions, answered from images made by hand."""

from typing import Any
from uuid import UUID

import pytest

from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tailrace_gateway.cluster_state import BrokerStatus, ClusterState, min_isr_of, state_of

TOPIC, BROKER = 2, 4


def broker(node: int, **changes: Any) -> BrokerImage:
    return BrokerImage(node, 1, UUID(int=node + 1), fenced=False, **changes)


def partition(*isr: int, leader: int | None = None, **changes: Any) -> PartitionImage:
    fields: dict[str, Any] = {"replicas": (0, 1, 2), "isr": isr, "leader": isr[0] if leader is None else leader}
    return PartitionImage(**{**fields, "leader_epoch": 1, "partition_epoch": 1, **changes})


def image(*partitions: PartitionImage, **changes: Any) -> MetadataImage:
    brokers = {0: broker(0), 1: broker(1, rack="r"), 2: BrokerImage(2, 1, UUID(int=3), fenced=True)}
    return MetadataImage(topics={"t": TopicImage("t", UUID(int=9), partitions)}, brokers=brokers, **changes)


def words(state: ClusterState) -> dict[str, list[int]]:
    names = ("offline", "under_replicated", "under_min_isr", "at_min_isr", "not_preferred", "reassigning")
    return {name: [index for _, index in getattr(state, name)] for name in names if getattr(state, name)}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (partition(0, 1, 2), set()),
        (partition(0, 1), {"under_replicated", "at_min_isr"}),
        (partition(0), {"under_replicated", "under_min_isr"}),
        (partition(1, 0, 2), {"not_preferred"}),
        (
            partition(2, leader=-1, eligible_leader_replicas=(1,)),
            {"offline", "under_replicated", "under_min_isr", "not_preferred"},
        ),
        (partition(0, 1, 2, replicas=(0, 1, 2, 3), adding_replicas=(3,)), {"reassigning"}),
        (partition(0, 1, 2, removing_replicas=(2,)), {"reassigning"}),
    ],
)
def test_each_gauge_counts_the_partitions_that_kafka_would_count(one: PartitionImage, expected: set[str]) -> None:
    assert set(words(state_of(image(one), min_insync_replicas=2))) == expected


def test_brokers_have_their_state_and_their_share() -> None:
    brokers = {0: broker(0), 1: broker(1, in_controlled_shutdown=True), 2: BrokerImage(2, 1, UUID(int=3), fenced=True)}
    topics = image(partition(0, 1), partition(1, 0)).topics
    state = state_of(MetadataImage(topics=topics, brokers=brokers), 1)
    assert [(row.status, row.leaders, row.replicas, row.in_sync) for row in state.brokers] == [
        (BrokerStatus.LIVE, 1, 2, 2),
        (BrokerStatus.CONTROLLED_SHUTDOWN, 1, 2, 2),
        (BrokerStatus.FENCED, 0, 2, 0),
    ]
    assert (state.topics, state.partitions, state.with_elr) == (1, 2, 0)


@pytest.mark.parametrize(
    ("configs", "replicas", "expected"),
    [
        ({}, 3, 2),
        ({(BROKER, ""): {"min.insync.replicas": "3"}}, 3, 3),
        ({(BROKER, ""): {"min.insync.replicas": "3"}, (TOPIC, "t"): {"min.insync.replicas": "1"}}, 3, 1),
        ({(TOPIC, "t"): {"min.insync.replicas": "5"}}, 3, 3),
        ({}, 1, 1),
    ],
)
def test_the_min_isr_is_the_topics_the_clusters_or_the_files(configs: Any, replicas: int, expected: int) -> None:
    assert min_isr_of(MetadataImage(configs=configs), "t", replicas, 2) == expected

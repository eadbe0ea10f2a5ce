"""Decisions about all partitions: no step of them grows with the cluster, and each is one decision nevertheless."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any
from uuid import UUID

import pytest

from support.metadata import CLUSTER_ID, after, cluster, topic_id
from support.steps import longest_stretch
from tailrace.config import Config
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
)
from tailrace.net.pieces import in_turns
from tailrace.steps import Steps
from tailrace.wire.messages import AlterPartitionRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest
from tailrace_controller.controller_result import ControllerResult
from tailrace_controller.decide import alter_partition, brokers, elections, preferred_leaders
from tailrace_controller.decision import decided

CONFIG = Config.load("controller", overrides={"unclean.leader.election.enable": "true"})
FEW, TIMES, MOST = 2_500, 2, 1.25
DIRECTORY = UUID(int=77)


@cache
def holding(count: int, *, leader: int = 0, isr: tuple[int, ...] = (0, 1), fenced: bool = False) -> MetadataImage:
    """Partitions of two replicas, in topics of a hundred."""
    records: list[MetadataRecord] = []
    for number in range(count):
        if not number % 100:
            records.append(TopicRecord(f"t{number}", topic_id(number)))
        records.append(
            PartitionRecord(
                number % 100, topic_id(number - number % 100), (0, 1), isr, leader, directories=(DIRECTORY,) * 2
            )
        )
    live = cluster(3)
    image = after(
        replace(live, brokers={k: replace(b, log_dirs=(DIRECTORY,)) for k, b in live.brokers.items()}), *records
    )
    return after(image, BrokerRegistrationChangeRecord(0, 10, fenced=1)) if fenced else image


def registering(previous_epoch: int) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=0, cluster_id=CLUSTER_ID, incarnation_id=UUID(int=5000), listeners=[], features=[], rack=None,
        log_dirs=[DIRECTORY], previous_broker_epoch=previous_epoch,
    )  # fmt: skip


def registered(image: MetadataImage, previous_epoch: int) -> Any:
    return brokers.register(image, registering(previous_epoch), CONFIG, is_connected=False)


def beat(image: MetadataImage, *, leaves: bool = False, offline: bool = False) -> Any:
    request = BrokerHeartbeatRequest(
        broker_id=0, broker_epoch=10, current_metadata_offset=1 << 40, want_fence=False, want_shut_down=leaves,
        offline_log_dirs=[DIRECTORY] * offline,
    )  # fmt: skip
    return brokers.heartbeat(image, image, request, CONFIG)


def electing(image: MetadataImage) -> Steps[ControllerResult[None]]:
    return ControllerResult(None, tuple((yield from elections.unclean(image, CONFIG))))


def proposing(image: MetadataImage) -> Any:
    """The leader of all partitions takes its follower out of the ISR of each."""
    asked = AlterPartitionRequest.TopicData
    rows = [
        asked(
            topic_id=topic.topic_id,
            partitions=[
                asked.PartitionData(
                    partition_index=index, leader_epoch=0, partition_epoch=0, leader_recovery_state=0,
                    new_isr_with_epochs=[asked.PartitionData.BrokerState(broker_id=0, broker_epoch=10)],
                )
                for index in range(len(topic.partitions))
            ],
        )
        for topic in image.topics.values()
    ]  # fmt: skip
    request = AlterPartitionRequest(broker_id=0, broker_epoch=10, topics=rows)
    return lambda image: alter_partition.alter(image, request, 3, CONFIG)


Case = tuple[dict[str, Any], Callable[[MetadataImage], Any]]
NOBODY_LEADS = {"leader": -1, "isr": (0,), "fenced": True}
CASES: dict[str, Case] = {
    "its leaderships first": ({}, lambda image: brokers.hand_over(image, 0, 10, CONFIG)),
    "no leaderships first": ({"isr": (0,)}, lambda image: brokers.hand_over(image, 0, 10, CONFIG)),
    "a broker dies": ({}, lambda image: brokers.expire(image, 0, 10, CONFIG)),
    "the only one in sync dies": ({"isr": (0,)}, lambda image: brokers.expire(image, 0, 10, CONFIG)),
    "a broker that nobody knows dies": ({"leader": 1, "isr": (1,)}, lambda image: brokers.expire(image, 0, 10, CONFIG)),
    "a broker wants to go": ({}, lambda image: beat(image, leaves=True)),
    "the only one in sync wants to go": ({"isr": (0,)}, lambda image: beat(image, leaves=True)),
    "a broker is back": (NOBODY_LEADS, beat),
    "a directory failed": ({}, lambda image: beat(image, offline=True)),
    "a clean restart": ({}, lambda image: registered(image, 10)),
    "an unclean restart": ({}, lambda image: registered(image, -1)),
    "a broker is forgotten": ({}, lambda image: brokers.unregister(image, 0, CONFIG)),
    "unclean elections": ({"leader": -1, "isr": (0,), "fenced": True}, electing),
    "preferred leaders": ({"leader": 1}, lambda image: preferred_leaders.restore(image, CONFIG)),
}


@pytest.mark.parametrize("case", CASES)
async def test_no_step_is_longer_because_there_are_more_partitions(case: str) -> None:
    given, decide = CASES[case]

    async def longest(count: int) -> int:
        return await longest_stretch(in_turns(decided(decide, holding(count, **given), 3)))

    await longest(100)
    assert await longest(TIMES * FEW) / await longest(FEW) < MOST


async def test_no_step_is_longer_because_more_isrs_are_proposed() -> None:
    async def longest(count: int) -> int:
        image = holding(count)
        decide = proposing(image)
        return await longest_stretch(in_turns(decided(decide, image, 3)))

    await longest(100)
    assert await longest(1_000) / await longest(500) < MOST

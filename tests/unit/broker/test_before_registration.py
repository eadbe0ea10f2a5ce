"""What a broker leads before the controller knows this life of it, when its cached image is of an earlier one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import structlog
from prometheus_client import CollectorRegistry

from support.broker import TOPIC_ID, Running, batch, image, running
from tailrace.clock import ManualClock
from tailrace.errors import ErrorCode
from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tailrace.net.background import in_background
from tailrace.runtime.role import Environment
from tailrace.wire.messages import BrokerRegistrationRequest, BrokerRegistrationResponse
from tailrace_broker import app

ALONE, SHARED = 0, 1  # partitions: the only replica, and one of two
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def led(leader_epoch: int) -> dict[str, TopicImage]:
    state = PartitionImage((0,), (0,), 0, leader_epoch, leader_epoch)
    shared = replace(state, replicas=(0, 1))
    return {"t": TopicImage("t", TOPIC_ID, (state, shared))}


def cached() -> MetadataImage:
    earlier = BrokerImage(0, 4, UUID(int=4), fenced=False)
    return replace(image(), topics=led(3), topic_names={TOPIC_ID: "t"}, shards={}, brokers={0: earlier}, offset=7)


async def codes(node: Running) -> list[int]:
    return [(await node.produce(index, batch(b"a"))).error_code for index in (ALONE, SHARED)]


def epochs(node: Running) -> list[int]:
    """In which leader epochs the records of the partition without other replicas are."""
    log = node.broker.topics.led("t", ALONE).log
    return [log.epochs.epoch_at(offset) for offset in range(log.log_end_offset)]


@asynccontextmanager
async def registering(node: Running, path: Path) -> AsyncIterator[list[str]]:
    """The broker's registration, wired as app.py does it; yields what it logs."""
    said: list[str] = []
    news = asyncio.Event()

    def say(_logger: Any, _name: str, event: Any) -> str:
        said.append(event["event"])
        news.set()
        return ""

    log = structlog.wrap_logger(structlog.PrintLogger(), processors=[say])
    environment = Environment(ManualClock(), random.Random(1), log, path, path / "run", "boot", CollectorRegistry())
    follower: Any = node.follower
    lifecycle = app.open_lifecycle(node.broker, follower, node.broker.config.static, environment, [])
    async with in_background(lifecycle.run(-1)):
        await news.wait()
        yield said


async def test_after_an_unclean_stop_nothing_is_led_in_the_epoch_of_the_earlier_life(tmp_path: Path) -> None:
    async with running(tmp_path, cached(), held_back="yes") as node:
        assert await codes(node) == [NOT_LEADER] * 2
        await node.broker.publisher.on_epoch(9)
        assert await codes(node) == [NOT_LEADER] * 2
        # what the controller decides when a broker registers and is unfenced (brokers.py): no leader, then it again
        known = {0: BrokerImage(0, 9, UUID(int=9), fenced=False)}
        node.follower.move(brokers=known, topics=led(5))
        assert await codes(node) == [0, 0]
        assert epochs(node) == [5]


async def test_where_no_controller_is_reached_what_has_no_other_replica_is_led_on(tmp_path: Path) -> None:
    async with running(tmp_path, cached(), held_back="yes") as node, registering(node, tmp_path) as said:
        assert said == ["registration failed"]  # the follower's twin reaches nobody
        assert await codes(node) == [0, NOT_LEADER]
        assert epochs(node) == [3]


async def test_a_refused_registration_was_answered_and_nothing_is_led(tmp_path: Path) -> None:
    async def refuse(_request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        return BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION, broker_epoch=-1)

    async with running(tmp_path, cached(), held_back="yes") as node:
        node.follower.on_ask = refuse
        async with registering(node, tmp_path) as said:
            assert said == ["registration refused"]
            assert await codes(node) == [NOT_LEADER] * 2


@pytest.mark.parametrize(
    ("marker", "goes_on"),
    [
        ('"brokerEpoch":4,"metadataOffset":7', True),
        ('"brokerEpoch":4,"metadataOffset":6', True),
        ('"brokerEpoch":4,"metadataOffset":8', False),  # the image that it had was not written, or is an old one again
        ('"brokerEpoch":4', False),
        ('"brokerEpoch":3,"metadataOffset":7', False),
    ],
)
async def test_only_the_very_life_that_was_closed_cleanly_is_taken_at_its_word(
    tmp_path: Path, marker: str, goes_on: bool
) -> None:
    async with running(tmp_path, cached()) as node:
        assert (await node.produce(ALONE, batch(b"a"))).error_code == 0
    (tmp_path / "broker-0" / ".kafka_cleanshutdown").write_text(f'{{"version":0,{marker}}}')
    async with running(tmp_path, cached(), held_back="yes") as node:
        assert await codes(node) == [0 if goes_on else NOT_LEADER] * 2


async def test_a_clean_stop_leaves_what_the_next_life_goes_on_with(tmp_path: Path) -> None:
    async with running(tmp_path, cached()) as node:
        await node.release()
        assert await codes(node) == [0, 0]
        known = {0: BrokerImage(0, 1, UUID(int=1), fenced=False)}  # 1 is the epoch that this twin closes with
        node.follower.move(brokers=known, offset=9)
    async with running(tmp_path, node.follower.image, held_back="yes") as node:
        assert [node.broker.storage.checkpointed("t", index) for index in (ALONE, SHARED)] == [1, 1]
        assert await codes(node) == [0, 0]
        leading = node.broker.topics.led("t", SHARED).leading
        assert leading is not None
        leading.maximal_isr |= {1}
    async with running(tmp_path, node.follower.image, held_back="yes") as node:  # it may be in the ISR by now
        assert await codes(node) == [NOT_LEADER] * 2

"""An image that makes a service much work is taken up in steps: when it is, and what comes meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from support.waiting import turns_until
from tailrace.clock import ManualClock
from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.backoff import Backoff
from tailrace.net.metadata.follower import MetadataFollower
from tailrace.net.metadata.link import MetadataLink, PollAnswer
from tailrace.steps import Steps

STEPS = 5


class Service:
    """Takes an image up in STEPS steps, and says of each step which image was the one before."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.whole: list[int] = []

    def on_image(self, old: MetadataImage, new: MetadataImage) -> Steps[None]:
        for _ in range(STEPS):
            self.steps.append((old.offset, new.offset))
            yield

    def after(self, old: MetadataImage, new: MetadataImage) -> None:
        self.whole.append(new.offset)


@pytest.fixture
async def follower(tmp_path: Path) -> AsyncIterator[MetadataFollower]:
    nowhere = Address(str(tmp_path / "controller"), -1)
    follower = MetadataFollower([nowhere], "me", ManualClock(), random.Random(0), structlog.get_logger(), None)
    yield follower
    await follower.close()


@pytest.fixture
def service(follower: MetadataFollower) -> Service:
    service = Service()
    follower.subscribe(service.on_image)
    follower.subscribe(service.after)
    return service


def answered(follower: MetadataFollower, offset: int) -> asyncio.Task[None]:
    """A controller's answer, by a link of its own."""
    clock = ManualClock()
    link = MetadataLink(Address("nowhere", 1), "me", follower, Backoff(clock, random.Random(1), 1, 1))
    answer = PollAnswer(MetadataImage(offset=offset), True, 0, 1, True)
    return asyncio.create_task(follower.on_answer(link, answer))


async def test_an_image_is_taken_up_when_all_its_steps_are_done(follower: MetadataFollower, service: Service) -> None:
    waiting = asyncio.create_task(follower.wait_for(lambda image: image.offset >= 7, None))
    taking = answered(follower, 7)
    await turns_until(lambda: bool(service.steps))
    assert follower.image.offset == 7
    while len(service.steps) < STEPS:
        assert (follower.applied.offset, service.whole, waiting.done()) == (-1, [], False)
        await asyncio.sleep(0)
    await taking
    assert (follower.applied.offset, service.whole, (await waiting).offset) == (7, [7], 7)


async def test_an_image_that_comes_meanwhile_waits_and_an_older_one_is_passed_over(
    follower: MetadataFollower, service: Service
) -> None:
    await asyncio.gather(*(answered(follower, offset) for offset in (3, 5, 4, 5)))
    assert service.steps == [(-1, 3)] * STEPS + [(3, 5)] * STEPS
    assert service.whole == [3, 5]
    assert follower.applied is follower.image


async def test_a_second_look_at_the_image_waits_for_the_end_of_the_first(
    follower: MetadataFollower, service: Service
) -> None:
    taking = answered(follower, 3)
    await turns_until(lambda: bool(service.steps))
    await follower.again(service.on_image)
    assert taking.done()
    assert service.steps == [(-1, 3)] * STEPS + [(3, 3)] * STEPS


async def test_who_begins_meanwhile_has_each_image_once(follower: MetadataFollower, service: Service) -> None:
    late = Service()
    taking = answered(follower, 3)
    await turns_until(lambda: bool(service.steps))
    await follower.begin(late.on_image)
    await taking
    await answered(follower, 4)
    assert late.steps == [(-1, 3)] * STEPS + [(3, 4)] * STEPS


async def test_who_leaves_has_taken_up_what_had_begun_and_hears_of_no_later_image(
    follower: MetadataFollower, service: Service
) -> None:
    taking = answered(follower, 3)
    await turns_until(lambda: bool(service.steps))
    await follower.end(service.on_image)
    assert service.steps == [(-1, 3)] * STEPS
    await taking
    await answered(follower, 4)
    assert service.steps == [(-1, 3)] * STEPS and service.whole == [3, 4]

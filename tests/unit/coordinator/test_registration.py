"""How a service joins the cluster, stays in it, and what a coordinator serves before it has."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from support.coordinator import INCARNATION, LOGGER, Stage, image, settle
from tailrace.clock import ManualClock
from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import Endpoint
from tailrace.net.backoff import Backoff
from tailrace.net.client import Disconnected
from tailrace.net.registration import Registration
from tailrace.wire import codec
from tailrace.wire.messages import (
    RegisterServiceRequest,
    RegisterServiceResponse,
    ServiceHeartbeatRequest,
    ServiceHeartbeatResponse,
)
from tailrace_coordinator.app import OpenCoordinator, follow


class Controllers:
    """Answers from a list; remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.image = image()
        self.asked: list[Any] = []
        self.answers = list(answers)
        self.subscribers: list[Callable[[MetadataImage, MetadataImage], None]] = []

    async def ask_controller(self, message: Any, timeout_ms: float) -> Any:
        self.asked.append(message)
        answer = self.answers.pop(0) if self.answers else ServiceHeartbeatResponse(error_code=0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def subscribe(self, callback: Callable[[MetadataImage, MetadataImage], None]) -> None:
        self.subscribers.append(callback)

    def become(self, new: MetadataImage) -> None:
        old, self.image = self.image, new
        for callback in self.subscribers:
            callback(old, new)


def registration(controllers: Controllers, clock: ManualClock, **options: Any) -> Registration:
    return Registration(
        controllers,
        clock,
        Backoff(clock, random.Random(1)),
        LOGGER,
        role="coordinator",
        service_id=0,
        incarnation_id=INCARNATION,
        endpoints=[Endpoint("INTERNAL", "127.0.0.1", 9)],
        **options,
    )


def accepted(epoch: int) -> RegisterServiceResponse:
    return RegisterServiceResponse(error_code=0, service_epoch=epoch)


class Running:
    """A registration at work; time passes when told."""

    def __init__(self, *answers: Any, **options: Any) -> None:
        self.clock = ManualClock()
        self.controllers = Controllers(*answers)
        self.registration = registration(self.controllers, self.clock, **options)
        self.task = asyncio.ensure_future(self.registration.run())

    async def advance(self, delay_ms: float) -> list[str]:
        """Returns what was asked meanwhile."""
        before = len(self.controllers.asked)
        await settle()
        self.clock.advance(delay_ms)
        await settle()
        return [type(message).__name__ for message in self.controllers.asked[before:]]

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_a_service_registers_and_heartbeats_with_its_epoch() -> None:
    heard: list[str] = []
    running = Running(accepted(7))
    running.registration.on_registered = lambda: heard.append("registered")
    assert await running.advance(0) == ["RegisterServiceRequest", "ServiceHeartbeatRequest"]
    register, beat = running.controllers.asked
    assert (register.role, register.incarnation_id, register.endpoints[0].port) == ("coordinator", INCARNATION, 9)
    assert (beat.service_epoch, beat.metadata_offset) == (7, 10)
    assert len(codec.encode_request(beat, 0, 1, "coordinator-0")) < 100  # whatever clients commit
    assert await running.advance(2_000) == ["ServiceHeartbeatRequest"]
    assert heard == ["registered"]
    await running.stop()


async def test_an_epoch_the_controller_does_not_know_is_registered_again() -> None:
    for unknown in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
        running = Running(accepted(7), ServiceHeartbeatResponse(error_code=unknown), accepted(9))
        await running.advance(0)
        await running.advance(100)
        assert running.registration.service_epoch == 9
        assert isinstance(running.controllers.asked[2], RegisterServiceRequest)
        await running.stop()


async def test_a_refused_or_lost_registration_is_tried_again_later() -> None:
    refused = RegisterServiceResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    running = Running(Disconnected("away"), refused, TimeoutError(), accepted(3))
    await running.advance(0)
    for _ in range(3):
        assert running.registration.service_epoch == -1
        await running.advance(2_000)
    assert running.registration.service_epoch == 3
    await running.stop()


async def test_a_lost_heartbeat_does_not_cost_the_registration() -> None:
    running = Running(accepted(7), Disconnected("away"), TimeoutError())
    await running.advance(0)
    await running.advance(1_500)
    await running.advance(1_500)
    assert [type(message) for message in running.controllers.asked].count(RegisterServiceRequest) == 1
    await running.stop()


async def test_a_service_that_stops_says_goodbye_if_anybody_knows_it() -> None:
    clock = ManualClock()
    controllers = Controllers(accepted(7))
    leaving = registration(controllers, clock)
    await leaving.leave(100)
    assert controllers.asked == []
    leaving.service_epoch = 7
    controllers.answers = [TimeoutError()]
    await leaving.leave(100)
    goodbye = controllers.asked[0]
    assert isinstance(goodbye, ServiceHeartbeatRequest)
    assert goodbye.want_shut_down


# -- what a coordinator serves, and when ----------------------------------------------------------------------


def opened(stage: Stage) -> tuple[Controllers, Registration, OpenCoordinator]:
    controllers = Controllers()
    joining = registration(controllers, stage.clock)
    stage.coordinator.incarnation_id = None
    started = OpenCoordinator(stage.coordinator, controllers, {})  # type: ignore[arg-type]
    follow(started, joining, stage.clock)
    return controllers, joining, started


async def test_shards_are_begun_when_the_image_shows_this_life() -> None:
    stage = Stage()
    controllers, joining, started = opened(stage)
    await settle()
    assert stage.log.epochs == []  # the image is of an earlier life
    joining.on_registered()
    await settle()
    assert stage.log.epochs == [1]
    assert started.ready.is_set()
    controllers.become(image(shard_epoch=2))
    await settle()
    assert stage.log.epochs == [1, 2]
    await stage.coordinator.close()


async def test_with_the_controllers_away_the_shards_of_an_earlier_life_are_served() -> None:
    stage = Stage()
    _, _, started = opened(stage)
    stage.clock.advance(2_999)
    await settle()
    assert stage.log.epochs == []
    stage.clock.advance(1)
    await settle()
    assert stage.log.epochs == [1]
    assert not started.ready.is_set()
    await stage.coordinator.close()


async def test_a_registration_the_image_does_not_show_yet_ends_what_an_earlier_life_owned() -> None:
    stage = Stage()
    _, joining, _ = opened(stage)
    stage.clock.advance(3_000)
    await settle()
    joining.incarnation_id = UUID(int=123)
    joining.on_registered()
    await settle()
    assert list(stage.coordinator.machines()) == []
    await stage.coordinator.close()

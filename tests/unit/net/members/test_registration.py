"""How a service joins the cluster and stays in it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from support.coordinator import INCARNATION, LOGGER, image, settle
from tailrace.clock import ManualClock
from tailrace.errors import ErrorCode
from tailrace.metadata.records import Endpoint
from tailrace.net.backoff import Backoff
from tailrace.net.client import Disconnected
from tailrace.net.members.registration import ServiceRegistration
from tailrace.wire import codec
from tailrace.wire.messages import (
    RegisterServiceRequest,
    RegisterServiceResponse,
    ServiceHeartbeatRequest,
    ServiceHeartbeatResponse,
)


class Controllers:
    """Answers from a list; remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.image = image()
        self.asked: list[Any] = []
        self.answers = list(answers)

    async def ask_controller(self, message: Any, timeout_ms: float) -> Any:
        self.asked.append(message)
        answer = self.answers.pop(0) if self.answers else ServiceHeartbeatResponse(error_code=0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def registration(controllers: Controllers, clock: ManualClock, **options: Any) -> ServiceRegistration:
    return ServiceRegistration(
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
    running = Running(accepted(7), on_registered=lambda: heard.append("registered"))
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

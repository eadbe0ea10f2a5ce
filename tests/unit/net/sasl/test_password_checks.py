"""How many checks of passwords may wait, and what becomes of one more."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest

from tailrace.access.refused import AuthenticationRefused
from tailrace.access.sasl import WRONG_PASSWORD
from tailrace.net.sasl.password_checks import MAX_OF_ADDRESS, MAX_WAITING, PasswordChecks


class World:
    """Checks that take until the test lets them end."""

    def __init__(self) -> None:
        self.checks, self.gate = PasswordChecks(), Event()
        self.waiting: list[asyncio.Task[bool]] = []

    async def begin(self, host: str, count: int) -> None:
        for _ in range(count):
            self.waiting.append(asyncio.create_task(self.checks.run(self.gate.wait, host)))
        await asyncio.sleep(0)  # each is in the queue now

    async def refused(self, host: str) -> str:
        with pytest.raises(AuthenticationRefused, match=f"^{WRONG_PASSWORD}$") as refused:
            await self.checks.run(self.gate.wait, host)
        return str(refused.value.__cause__)

    async def end(self) -> list[bool]:
        self.gate.set()
        done = await asyncio.gather(*self.waiting)
        self.checks.close()
        return done


async def test_one_address_has_few_checks_that_wait_and_others_go_on() -> None:
    world = World()
    await world.begin("10.0.0.1", MAX_OF_ADDRESS)
    assert await world.refused("10.0.0.1") == "32 checks of passwords of this address wait"
    await world.begin("10.0.0.2", 1)
    assert await world.end() == [True] * (MAX_OF_ADDRESS + 1)


async def test_all_addresses_have_a_bounded_number() -> None:
    world = World()
    for number in range(MAX_WAITING // MAX_OF_ADDRESS):
        await world.begin(f"10.0.0.{number}", MAX_OF_ADDRESS)
    assert await world.refused("10.0.1.1") == "256 checks of passwords wait"
    assert await world.end() == [True] * MAX_WAITING


async def test_a_place_is_free_again_after_a_check_or_the_end_of_its_client() -> None:
    world = World()
    await world.begin("10.0.0.1", MAX_OF_ADDRESS)
    last = world.waiting.pop()
    last.cancel()
    await asyncio.wait([last])
    await world.begin("10.0.0.1", 1)
    assert await world.refused("10.0.0.1")
    world.gate.set()
    await asyncio.gather(*world.waiting)
    await world.begin("10.0.0.1", MAX_OF_ADDRESS)
    assert all(await world.end())

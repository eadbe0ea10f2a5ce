"""A decision of many steps in a shard that others ask meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from support.coordinator import Stage, settle
from support.processor_time import spend
from support.tallies import TALLIES, TOPIC, AddRequest, Tallies, Tally
from tailrace.errors import ErrorCode
from tailrace.state import Effects, Timer, Token
from tailrace.steps import Steps
from unit.coordinator.shards.test_kinds import add, with_tallies, written

STEPS = 50
STEP_MS = 2.1  # more than long work may use of a turn
DUE_MS = 1_000


class LongTallies(Tallies):
    """What is added to "long" takes many steps: 0 is a bug in one of them, 2 moves the deadline of "old"."""

    def add(self, now_ms: int, token: Token, request: AddRequest) -> Any:
        effects = super().add(now_ms, token, request)
        return self._in_steps(effects, request) if request.name == "long" else effects

    def _in_steps(self, effects: Effects[Tally], request: AddRequest) -> Steps[Effects[Tally]]:
        for _ in range(STEPS):
            spend(STEP_MS)
            yield
        if not request.amount:
            raise ZeroDivisionError
        return replace(effects, timers=(Timer(("forget", "old"), DUE_MS),) if request.amount == 2 else ())

    def on_loaded(self, now_ms: int, image: Any) -> Effects[Tally]:
        return Effects(timers=(Timer(("forget", "old"), DUE_MS),))


async def begun(amount: int) -> tuple[Stage, asyncio.Future[Any]]:
    """A shard that takes a long decision."""
    stage = Stage(kinds={TOPIC: replace(TALLIES, machine=lambda _: LongTallies())})
    stage.logs[TOPIC].entries += [(False, (b"old", b"1"))]
    await stage.become(with_tallies())
    long = asyncio.ensure_future(add(stage, "long", amount))
    await settle()
    assert not long.done()
    return stage, long


async def test_others_are_answered_after_it_and_see_what_it_did() -> None:
    stage, long = await begun(5)
    after = asyncio.ensure_future(add(stage, "a", 1))
    await settle()
    assert written(stage) == [(b"old", b"1")]
    assert (await long, await after) == (5, 1)
    assert written(stage)[1:] == [(b"long", b"5"), (b"a", b"1")]
    assert await add(stage, "a", 1) == 2
    await stage.coordinator.close()


@pytest.mark.parametrize("amount", [1, 2])
async def test_a_deadline_that_passes_meanwhile_counts_unless_it_was_moved(amount: int) -> None:
    stage, long = await begun(amount)
    stage.clock.advance(DUE_MS)
    assert await long == amount
    await settle()
    was_moved = amount == 2
    assert ((b"old", None) in written(stage)) is not was_moved
    stage.clock.advance(DUE_MS)
    await settle()
    assert (b"old", None) in written(stage)
    await stage.coordinator.close()


async def test_a_bug_in_one_of_its_steps_is_its_askers_and_the_shard_is_loaded_again() -> None:
    stage, long = await begun(0)
    waiting = asyncio.ensure_future(add(stage, "a", 1))
    with pytest.raises(ZeroDivisionError):
        await long
    assert await waiting is ErrorCode.NOT_COORDINATOR
    stage.clock.advance(2_000)
    await settle()
    assert await add(stage, "a", 1) == 1
    await stage.coordinator.close()


async def test_when_the_shard_goes_nobody_waits_any_more() -> None:
    stage, long = await begun(5)
    waiting = asyncio.ensure_future(add(stage, "a", 1))
    await stage.become(with_tallies(shard_epoch=2, owner=1))
    assert (await long, await waiting) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
    assert written(stage) == [(b"old", b"1")]
    await stage.coordinator.close()

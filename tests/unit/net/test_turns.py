"""Long work in turns: other work of the loop runs whenever the budget that all long work shares is spent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.processor_time import spend
from tailrace.net.turns import in_turns, turns
from tailrace.steps import Steps, whole


class Turns:
    """Of the loop, so far; and how often something was done in each of them."""

    def __init__(self) -> None:
        self.now = 0
        self.done: dict[int, int] = {}

    def count(self) -> None:
        self.done[self.now] = self.done.get(self.now, 0) + 1

    async def run(self) -> None:
        while True:
            self.now += 1
            await asyncio.sleep(0)

    @contextmanager
    def counted(self) -> Iterator[None]:
        counting = asyncio.create_task(self.run())
        yield
        counting.cancel()


def steps_of(rows: int, ms: float, done: Turns) -> Steps[str]:
    for _ in range(rows):
        spend(ms)
        done.count()
        yield
    return "all"


async def test_rows_that_spend_the_budget_each_leave_every_turn_to_others() -> None:
    loop = Turns()
    with loop.counted():
        async for _ in turns(range(5)):
            spend(3)
            loop.count()
    assert list(loop.done.values()) == [1] * 5


async def test_short_work_is_not_interrupted() -> None:
    loop = Turns()
    with loop.counted():
        assert [row async for row in turns("abc")] == ["a", "b", "c"]
        assert await in_turns(steps_of(50, 0, loop)) == "all"
    assert loop.now == 0


async def test_steps_return_their_result_and_raise_their_error() -> None:
    def failing() -> Steps[None]:
        yield
        raise ValueError("at the second step")

    loop = Turns()
    with loop.counted():
        assert await in_turns(steps_of(5, 3, loop)) == "all"
        with pytest.raises(ValueError, match="second step"):
            await in_turns(failing())
    assert list(loop.done.values()) == [1] * 5
    assert whole(steps_of(2, 0, loop)) == "all"


async def test_all_long_work_of_a_loop_shares_one_budget() -> None:
    """Twenty at once hold the loop no longer than one does, and each goes on before any does so twice."""
    loop = Turns()
    order: list[int] = []

    async def work(name: int) -> None:
        async for _ in turns(range(3)):
            spend(3)
            order.append(name)
            loop.count()

    with loop.counted():
        await asyncio.gather(*(work(name) for name in range(20)))
    assert max(loop.done.values()) <= 2  # the turn may end between the work and the count
    assert order[0] == 0  # in the turn in which all began
    assert order[1:] == [*range(20)] * 2 + [*range(1, 20)]


async def test_cancelled_work_holds_up_no_other() -> None:
    loop = Turns()
    spend_now = [asyncio.create_task(in_turns(steps_of(2, 3, loop))) for _ in range(4)]
    await asyncio.sleep(0)
    spend_now[1].cancel()
    spend_now[2].cancel()
    results = await asyncio.gather(*spend_now, return_exceptions=True)
    assert [result == "all" for result in results] == [True, False, False, True]

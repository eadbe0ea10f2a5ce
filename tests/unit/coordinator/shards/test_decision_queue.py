"""A decision of many steps: what waits for it, and in which order it goes on."""

import asyncio

import pytest

from support.coordinator import settle
from support.processor_time import spend
from support.waiting import turns_until
from tailrace.steps import Steps
from tailrace_coordinator.shards.decision_queue import DecisionQueue


def taking(steps: int, name: str, done: list[str], step_ms: float = 0) -> Steps[None]:
    for _ in range(steps - 1):
        spend(step_ms)
        yield
    done.append(name)


async def test_a_decision_of_one_step_is_over_at_once() -> None:
    queue, done = DecisionQueue(), list[str]()
    queue.add(taking(1, "a", done))
    assert (done, queue.busy) == (["a"], False)


async def test_later_ones_wait_in_order_and_others_on_the_loop_do_not() -> None:
    queue, done = DecisionQueue(), list[str]()
    queue.add(taking(5, "long", done, step_ms=3))  # more than long work may use of a turn
    for name in ("b", "c", "d"):
        queue.add(taking(3 if name == "c" else 1, name, done))
    asyncio.get_running_loop().call_soon(done.append, "another shard")
    await turns_until(lambda: not queue.busy)
    assert done == ["another shard", "long", "b", "c", "d"]
    queue.add(taking(1, "e", done))
    assert done[-1] == "e"


async def test_what_a_waiting_one_adds_comes_last() -> None:
    queue, done = DecisionQueue(), list[str]()

    def adding() -> Steps[None]:
        yield from ()
        queue.add(taking(1, "added", done))

    queue.add(taking(2, "long", done))
    queue.add(adding())
    queue.add(taking(1, "b", done))
    await turns_until(lambda: not queue.busy)
    assert done == ["long", "b", "added"]


@pytest.mark.parametrize("within", [False, True])
async def test_when_it_is_closed_nothing_goes_on(within: bool) -> None:
    queue, done = DecisionQueue(), list[str]()

    def closing() -> Steps[None]:
        yield
        queue.close()

    queue.add(closing() if within else taking(3, "long", done))
    queue.add(taking(1, "b", done))
    if not within:
        queue.close()
    await settle()
    assert done == []

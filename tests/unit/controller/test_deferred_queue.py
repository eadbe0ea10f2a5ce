"""Decisions that wait for the database go out together and in order, and nobody waits for what was dropped."""

import asyncio

import pytest

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import NoOpRecord
from tailrace_controller.decide.controller_result import ControllerResult
from tailrace_controller.decision import Decided, decided
from tailrace_controller.deferred_queue import DeferredQueue


def decision(reply: str, records: int = 1) -> Decided[str]:
    result = ControllerResult(reply, (NoOpRecord(),) * records)
    return decided(lambda _: result, MetadataImage(), 1)


async def test_all_that_wait_go_out_together_and_in_order() -> None:
    queue = DeferredQueue()
    waiting = asyncio.ensure_future(queue.next_group())
    await asyncio.sleep(0)
    queue.add(decision("a"))
    queue.add(decision("b", 2))
    assert queue.records == 3
    assert [made.reply for made in await waiting] == ["a", "b"] and queue.records == 0


async def test_what_comes_when_too_much_waits_is_refused() -> None:
    queue = DeferredQueue()
    queue.records_max = 1
    queue.add(decision("a", 2))
    with pytest.raises(ApiError) as refused:
        queue.add(decision("b"))
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert [made.reply for made in await queue.next_group()] == ["a"]


async def test_a_reply_waits_for_its_offset_and_for_no_later_one() -> None:
    queue = DeferredQueue()
    waits = [asyncio.ensure_future(queue.until_committed(offset)) for offset in (1, 2, 3)]
    await asyncio.sleep(0)
    queue.committed(2)
    await asyncio.gather(*waits[:2])
    assert not waits[2].done()
    queue.drop("resigned")
    with pytest.raises(ApiError, match="resigned") as refused:
        await waits[2]
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def test_one_that_waits_no_more_keeps_nobody_up() -> None:
    queue = DeferredQueue()
    given_up, waiting = (asyncio.ensure_future(queue.until_committed(1)) for _ in range(2))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.sleep(0)
    queue.committed(1)
    await waiting
    queue.drop("resigned")


async def test_a_dropped_decision_is_not_written() -> None:
    queue = DeferredQueue()
    queue.add(decision("a"))
    queue.drop("resigned")
    queue.add(decision("b"))
    assert queue.records == 1 and [made.reply for made in await queue.next_group()] == ["b"]


async def test_a_decision_whose_sender_waits_no_more_is_refused_to_no_other() -> None:
    queue = DeferredQueue()
    sender, saw_it = (asyncio.ensure_future(queue.until_committed(1)) for _ in range(2))
    await asyncio.sleep(0)
    sender.cancel()
    await asyncio.sleep(0)
    queue.refuse(1, "no such text")
    with pytest.raises(ApiError) as refused:
        await saw_it
    assert refused.value.code is ErrorCode.NOT_CONTROLLER

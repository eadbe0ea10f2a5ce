"""What one decision answers to thousands: each answer is encoded by the task that waits for it."""

import asyncio
from collections import Counter

from support.coordinator import Stage, image
from tailrace.state import ANSWERS_AT_ONCE
from tailrace.wire.messages import JoinGroupRequest
from tailrace_coordinator.groups.config import GroupConfig

MEMBERS = 5 * ANSWERS_AT_ONCE
DELAY_MS = 3_000


def join() -> JoinGroupRequest:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=DELAY_MS,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[protocol],
    )


async def test_of_thousands_who_wait_for_one_decision_some_go_on_in_each_turn() -> None:
    stage = Stage(GroupConfig(group_initial_rebalance_delay_ms=DELAY_MS))
    await stage.become(image())
    turn, answered = 0, Counter[int]()  # by the turn of the event loop

    async def member() -> int:
        answer = await stage.ask(join(), 3)
        answered[turn] += 1
        return int(answer.generation_id)

    members = [asyncio.create_task(member()) for _ in range(MEMBERS)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert not answered
    for _ in range(3):
        stage.clock.advance(DELAY_MS)
    while answered.total() < MEMBERS:
        await asyncio.sleep(0)
        turn += 1
        assert turn < MEMBERS
    assert {await each for each in members} == {1}
    assert max(answered.values()) <= ANSWERS_AT_ONCE
    await stage.coordinator.close()

"""Large answers of one role share a budget: one after the other where it is used up, and slow clients give way."""

from __future__ import annotations

import asyncio

from tailrace.net.limits.answer_memory import OWN_BYTES, TAKEN_WITHIN_MS, AnswerMemory

MOST = 100 * OWN_BYTES


class Client:
    def __init__(self) -> None:
        self.why: str | None = None

    def give_way(self, why: str) -> None:
        self.why = why


async def begun(memory: AnswerMemory, client: Client, size_bytes: int) -> asyncio.Task[None]:
    """A request for room, as far as it comes at once."""
    asking = asyncio.create_task(memory.room(client, size_bytes))
    for _ in range(3):
        await asyncio.sleep(0)
    return asking


async def test_an_answer_waits_for_its_turn_where_the_budget_is_used_up() -> None:
    memory = AnswerMemory(MOST)
    first, second, third, small = (Client() for _ in range(4))
    await memory.room(first, MOST - OWN_BYTES)
    waiting, behind = await begun(memory, second, 2 * OWN_BYTES), await begun(memory, third, OWN_BYTES + 1)
    assert (memory.waiting_count, memory.held_bytes) == (2, MOST - OWN_BYTES)
    assert memory.waited_count == 2
    await memory.room(small, OWN_BYTES)  # as small as what each connection has in any case
    memory.give_back(first)
    await waiting
    await behind
    assert (memory.waiting_count, memory.held_bytes) == (0, 3 * OWN_BYTES + 1)
    for client in (second, third, second):
        memory.give_back(client)
    assert memory.held_bytes == 0


async def test_what_an_answer_was_thought_to_take_is_corrected() -> None:
    memory = AnswerMemory(MOST)
    first, second = Client(), Client()
    await memory.room(first, MOST)
    waiting = await begun(memory, second, MOST // 2)
    memory.hold(first, MOST // 2)
    await waiting
    assert memory.held_bytes == MOST
    memory.hold(first, OWN_BYTES)
    assert memory.held_bytes == MOST // 2


async def test_the_second_part_of_an_answer_does_not_wait() -> None:
    """Each would keep what the others wait for."""
    memory = AnswerMemory(MOST)
    first = Client()
    await memory.room(first, MOST)
    waiting = await begun(memory, Client(), MOST)
    await memory.room(first, MOST)
    assert memory.held_bytes == 2 * MOST
    memory.give_back(first)
    await waiting


async def test_an_answer_above_the_budget_comes_alone() -> None:
    memory = AnswerMemory(MOST)
    first, huge = Client(), Client()
    await memory.room(first, OWN_BYTES + 1)
    waiting = await begun(memory, huge, 2 * MOST)
    assert memory.waiting_count == 1
    memory.give_back(first)
    await waiting
    assert memory.held_bytes == 2 * MOST


async def test_a_request_that_is_given_up_leaves_the_queue() -> None:
    memory = AnswerMemory(MOST)
    first, last = Client(), Client()
    await memory.room(first, MOST)
    given_up = await begun(memory, Client(), MOST)
    granted_too_late = await begun(memory, Client(), MOST)
    waiting = await begun(memory, last, MOST)
    given_up.cancel()
    memory.give_back(first)
    granted_too_late.cancel()  # in the same turn
    await asyncio.gather(given_up, granted_too_late, return_exceptions=True)
    await waiting
    assert (memory.waiting_count, memory.held_bytes) == (0, MOST)


async def test_a_client_that_does_not_take_its_answer_is_overdue() -> None:
    now_ms = 0.0
    memory = AnswerMemory(MOST, lambda: now_ms)
    slow, quick = Client(), Client()
    await memory.room(slow, MOST // 2)
    now_ms = TAKEN_WITHIN_MS
    await memory.room(quick, MOST // 2)
    assert memory.overdue() == []
    now_ms += 1
    assert memory.overdue() == [slow]
    memory.hold(slow, MOST // 4)  # it is still the same answer
    assert memory.overdue() == [slow]


async def test_of_answers_that_are_not_taken_the_one_that_waits_longest_makes_room() -> None:
    """Answers of Fetch do not wait, so ten thousand clients that read nothing would have theirs in memory."""
    memory = AnswerMemory(MOST)
    first, second, third, small = (Client() for _ in range(4))
    memory.untaken(small, OWN_BYTES)  # as small as what each connection has in any case
    for client in (first, second, third):
        memory.untaken(client, MOST)
    assert [client.why is None for client in (small, first, second, third)] == [True, False, True, True]
    assert (memory.held_bytes, memory.gave_way_count) == (2 * MOST, 1)
    memory.taken(second)
    memory.untaken(third, 2 * MOST)  # it is the only one that takes nothing: as one answer above the budget
    assert second.why is None and third.why is None
    for client in (second, third):
        memory.give_back(client)
    assert memory.held_bytes == 0

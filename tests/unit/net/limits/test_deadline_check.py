"""One sweep over very many connections: others have their turn meanwhile."""

from __future__ import annotations

import asyncio

from support.processor_time import spend
from support.sessions import session_of
from tailrace.net.limits.deadline_check import DeadlineCheck
from tailrace.net.limits.deadlines import ConnectionDeadlines, Progress

MANY = 6
SPENT_MS = 3.0  # more than the budget of a turn


class Looked(list["Quiet"]):
    """Who was looked at, in order."""

    def __init__(self, all_of: int) -> None:
        self.all_of = all_of
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    def note(self, connection: Quiet) -> None:
        self.append(connection)
        self.begun.set()
        if len(self) == self.all_of:
            self.ended.set()


class Quiet:
    """Takes long to look at, and notes when it is."""

    def __init__(self, looked: Looked) -> None:
        self.looked = looked
        self.session = session_of()
        self.begun = False
        self.why = ""

    @property
    def progress(self) -> Progress:
        spend(SPENT_MS)
        self.looked.note(self)
        return Progress(0, 0, begun=self.begun, head=True, unsent=False, answer_pending=False)

    def reclaim_memory(self) -> None:
        return

    def give_up(self, why: str) -> None:
        self.why = f"gone: {why}"


async def test_very_many_are_looked_at_in_turns_and_none_that_has_ended_meanwhile() -> None:
    looked = Looked(MANY - 1)
    connections = dict.fromkeys(Quiet(looked) for _ in range(MANY))
    first, *_, last = connections
    first.begun = True
    check = DeadlineCheck(connections, ConnectionDeadlines(20, 5, 10))
    check.start()
    await looked.begun.wait()
    assert len(looked) <= 2
    del connections[last]
    await looked.ended.wait()
    check.close()
    assert looked == list(connections)
    assert first.why == "gone: no whole request head within 10 ms"


async def test_a_sweep_that_is_closed_goes_no_further() -> None:
    looked = Looked(MANY)
    check = DeadlineCheck([Quiet(looked) for _ in range(MANY)], ConnectionDeadlines(20, 10, 10))
    check.start()
    await looked.begun.wait()
    check.close()
    seen = len(looked)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(looked) == seen < MANY

"""What a service reports may take long to find: others have their turn meanwhile."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import structlog

from tailrace.clock import ManualClock
from tailrace.net.members.reports import Reports, Source
from tailrace.steps import Steps
from tailrace.wire.messages import ReportGroupsRequest

STEPS = 20


async def test_rows_that_are_found_in_steps_leave_others_their_turn() -> None:
    told: list[ReportGroupsRequest] = []
    turns = most = 0

    def found() -> Steps[list[int]]:
        nonlocal most
        begun = turns
        for _ in range(STEPS):
            yield
        most = turns - begun
        return [1, 2]

    async def send(request: ReportGroupsRequest) -> Any:
        told.append(request)
        return SimpleNamespace(error_code=0)

    async def count_turns() -> None:
        nonlocal turns
        while not told:
            turns += 1
            await asyncio.sleep(0)

    sources = [
        Source("steps", found, lambda thing: {"n": thing}),
        Source("list", lambda: [3], lambda thing: {"n": thing}),
    ]
    reports = Reports(ManualClock(), sources, send, lambda: (1, 1), structlog.get_logger())
    counting = asyncio.create_task(count_turns())
    assert await reports.report() == 3
    await counting
    assert most >= STEPS
    assert [(one.kind, json.loads(bytes(one.payload))) for one in told] == [
        ("steps", [{"n": 1}, {"n": 2}]),
        ("list", [{"n": 3}]),
    ]

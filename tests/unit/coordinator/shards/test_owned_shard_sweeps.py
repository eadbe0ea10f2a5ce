"""A sweep in a shard: a decision about each row, with the other work of the shard between."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from support.coordinator import Stage, settle
from support.processor_time import spend
from support.tallies import TALLIES, TOPIC, Tallies, Tally
from support.waiting import turns_until
from tailrace.errors import ErrorCode
from tailrace.state import SHELL, Effects, Sweep
from unit.coordinator.test_kinds import add, with_tallies, written

ROWS = 50
ROW_MS = 2.1  # more than long work may use of a turn


class SweptTallies(Tallies):
    """After it is loaded the tallies of all rows are set to 1; "broken" is a row with a bug."""

    rows: tuple[str, ...] = ()

    def on_loaded(self, now_ms: int, image: Any) -> Effects[Tally]:
        return Effects(replies=((SHELL, Sweep(self.rows, self._set)),))

    def _set(self, now_ms: int, name: str) -> Effects[Tally]:
        if name == "broken":
            type(self).rows = ()  # the next loading goes well
            raise ZeroDivisionError
        spend(ROW_MS)
        return Effects((Tally(name, 1),))


async def swept(*rows: str) -> Stage:
    """A shard that was loaded just now, whose sweep has begun."""
    machine = type("Swept", (SweptTallies,), {"rows": rows})
    stage = Stage(kinds={TOPIC: replace(TALLIES, machine=lambda _: machine())})
    await stage.become(with_tallies())
    return stage


def totals(stage: Stage) -> dict[str, int]:
    (machine,) = stage.coordinator.runtimes[TOPIC].machines()
    return {} if machine is None else dict(machine.totals)


async def test_requests_are_answered_between_two_rows() -> None:
    stage = await swept(*(f"row-{number}" for number in range(ROWS)))
    assert await add(stage, "asked", 5) == 5
    assert len(totals(stage)) < ROWS
    await turns_until(lambda: len(totals(stage)) == ROWS + 1)
    await settle()
    assert sorted(written(stage)) == sorted([(b"asked", b"5"), *((b"row-%d" % n, b"1") for n in range(ROWS))])
    await stage.coordinator.close()


async def test_its_records_wait_for_the_log_within_a_bound() -> None:
    names = [f"{number:02}" * 500_000 for number in range(ROWS)]  # 1 MB each, of which 16 may wait
    stage = await swept(*names)
    stage.logs[TOPIC].gate.clear()
    for _ in range(ROWS):
        await asyncio.sleep(0)
    assert 1 < len(totals(stage)) < ROWS
    stage.logs[TOPIC].gate.set()
    await turns_until(lambda: len(totals(stage)) == ROWS)
    await stage.coordinator.close()


async def test_a_sweep_ends_with_the_loading_of_its_shard() -> None:
    stage = await swept(*(f"row-{number}" for number in range(ROWS)))
    waiting = asyncio.ensure_future(add(stage, "asked", 5))
    await stage.become(with_tallies(shard_epoch=2, owner=1))
    assert await waiting in (5, ErrorCode.NOT_COORDINATOR)
    count = len(written(stage))
    await settle()
    assert len(written(stage)) == count < ROWS
    await stage.coordinator.close()


async def test_a_bug_in_one_of_its_rows_costs_the_loading() -> None:
    stage = await swept("row", "broken", *(f"row-{number}" for number in range(ROWS)))
    stage.clock.advance(2_000)
    await turns_until(lambda: totals(stage) == {"row": 1} or not totals(stage))
    await settle()
    assert await add(stage, "row", 1) in (1, 2)  # as far as the log had it
    assert "row-0" not in totals(stage)
    await stage.coordinator.close()

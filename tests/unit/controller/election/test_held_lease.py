"""The lease while a controller holds it."""

from __future__ import annotations

import asyncio
import random
from typing import cast

import pytest
import structlog

from support.metadata_store import MemoryDatabase
from tailrace.clock import ManualClock
from tailrace_controller.election.candidacy import Candidacy
from tailrace_controller.election.held_lease import HeldLease, NoHeartbeats
from tailrace_controller.metadata_log.database import Database
from tailrace_controller.metadata_log.lease_row import Candidate

LEASE_MS = 1000.0


def held(*, exclusive: bool = False) -> tuple[HeldLease, ManualClock]:
    clock = ManualClock()
    database = MemoryDatabase(clock, shared=not exclusive)
    candidate, dice = Candidate(0, "t", exclusive=exclusive), random.Random(1)
    candidacy = Candidacy(candidate, cast(Database, database), clock, dice, structlog.get_logger(), LEASE_MS)
    lease = HeldLease(clock, candidacy)
    lease.begin(clock.monotonic_ms())
    return lease, clock


async def test_it_is_fresh_until_the_database_has_said_nothing_for_its_time() -> None:
    lease, clock = held()
    assert (lease.is_fresh, lease.age_ms) == (True, 0.0)
    clock.advance(LEASE_MS)
    assert (lease.holding, lease.is_fresh, lease.age_ms) == (True, False, LEASE_MS)
    lease.confirmed(clock.monotonic_ms())
    assert lease.is_fresh
    lease.end()
    assert (lease.is_fresh, lease.age_ms) == (False, -1.0)


async def test_it_is_given_away_once_until_somebody_is_heard() -> None:
    lease, _ = held()
    assert lease.give_away("silence") and not lease.give_away("silence")
    with pytest.raises(NoHeartbeats, match="silence"):
        await lease.until_due()
    lease.on_heartbeat()
    assert lease.give_away("silence again")


@pytest.mark.parametrize("exclusive", [False, True])
async def test_a_renewal_is_due_after_a_while_or_when_it_is_wanted(exclusive: bool) -> None:
    lease, clock = held(exclusive=exclusive)
    waiting = asyncio.create_task(lease.until_due())
    await asyncio.sleep(0)
    clock.advance(LEASE_MS / 2)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert waiting.done() is not exclusive  # no other controller can take an exclusive one
    wanted = lease.want_renewal()
    await waiting
    assert not lease.is_renewed(wanted)

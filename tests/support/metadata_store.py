"""The metadata database's twin in memory: one server, a store for each controller, and faults at every question.

It keeps to what the real store promises (tests/integration/controller/test_controller_postgres.py holds both to it): an
append checks epoch and offset under one lock, the lease is taken only from the row that was expected.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tailrace.clock import ManualClock
from tailrace_controller.metadata_log.lease_row import NOBODY, Candidate, Lease
from tailrace_controller.metadata_log.stored import (
    ContentRefused,
    Deposed,
    OutcomeUnknown,
    ReplayPosition,
    StoredLog,
    StoredRecord,
    StoredSnapshot,
)


@dataclass
class MemoryServer:
    """What the database holds. `written` remembers every append, whatever a restored backup forgets."""

    lease: Lease = field(default_factory=lambda: Lease(NOBODY, "", 0, 0, 0))
    records: list[StoredRecord] = field(default_factory=list)
    snapshot: StoredSnapshot | None = None
    appends: list[int] = field(default_factory=list)
    written: list[tuple[int, int]] = field(default_factory=list)  # (epoch, offset) of every record, as appended

    def backup(self) -> "MemoryServer":
        """A copy of what it holds now."""
        return MemoryServer(self.lease, list(self.records), self.snapshot)

    def restore(self, backup: "MemoryServer") -> None:
        """Goes back to a copy."""
        self.lease, self.records, self.snapshot = backup.lease, list(backup.records), backup.snapshot


class MemoryStore:
    """One controller's store on a server; fail_next is raised by the next append, before or after it was written.
    A record with the bytes cannot_hold is refused.

    taken hears of a lease that was taken here before its taker does, as a quick standby may.
    """

    def __init__(self, server: MemoryServer, clock: ManualClock) -> None:
        self.server = server
        self.clock = clock
        self.fail_next: Exception | None = None
        self.cannot_hold = b""
        self.taken: Callable[[Lease], None] = lambda lease: None
        self.written_all_the_same = False

    @property
    def epoch(self) -> int:
        return self.server.lease.epoch

    @property
    def records(self) -> list[StoredRecord]:
        return self.server.records

    def follow(self, position: ReplayPosition) -> StoredLog:
        server, asked_ms = self.server, self.clock.monotonic_ms()
        lease, before = server.lease, position.next_offset - 1
        last = next((record for record in server.records if record.offset == before), None)
        if last is not None and last.epoch == position.epoch:
            tail = tuple(record for record in server.records if record.offset > before)
            return StoredLog(lease, tail, asked_ms, whole=False)
        if not server.records and lease.next_offset == position.next_offset:
            return StoredLog(lease, (), asked_ms, whole=False)
        diverged = last is not None or lease.next_offset <= before
        return StoredLog(lease, tuple(server.records), asked_ms, server.snapshot, diverged=diverged)

    def take(self, candidate: Candidate, expected: Lease | None, position: ReplayPosition) -> StoredLog | None:
        lease = self.server.lease
        if expected is not None and expected != lease:
            return None
        names: dict[str, Any] = {"holder": candidate.node_id, "token": candidate.token, "address": candidate.address}
        self.server.lease = replace(lease, epoch=lease.epoch + 1, renewals=lease.renewals + 1, **names)
        self.taken(self.server.lease)
        return self.follow(position)

    def renew(self, epoch: int, seen_offset: int = -1, seen_epoch: int = -1) -> tuple[Lease, float]:
        asked_ms = self.clock.monotonic_ms()
        self._hold(epoch)
        if seen_offset >= 0:
            seen = replace(self.server.lease, seen_offset=seen_offset, seen_epoch=seen_epoch, accepted_offset=-1)
            self.server.lease = seen
        return self.server.lease, asked_ms

    def witness(self, seen_offset: int, seen_epoch: int) -> None:
        lease = self.server.lease
        if lease.next_offset <= seen_offset and lease.seen_offset < seen_offset:
            self.server.lease = replace(lease, seen_offset=seen_offset, seen_epoch=seen_epoch, accepted_offset=-1)

    def give_up(self, seen_offset: int) -> bool:
        if self.server.lease.seen_offset != seen_offset:
            return False
        self.server.lease = replace(self.server.lease, accepted_offset=seen_offset)
        return True

    def release(self, candidate: Candidate) -> None:
        if candidate.holds(self.server.lease):
            lease = self.server.lease
            self.server.lease = replace(lease, holder=NOBODY, token="", renewals=lease.renewals + 1)

    def append(self, epoch: int, records: Sequence[StoredRecord], changes: Any) -> float:
        list(changes)
        if self.cannot_hold and any(self.cannot_hold in record.record for record in records):
            raise ContentRefused("no such text")
        failure, self.fail_next = self.fail_next, None
        if failure is None or self.written_all_the_same:
            self._hold(epoch)
            if records[0].offset != self.server.lease.next_offset:
                raise OutcomeUnknown(f"the log ends at {self.server.lease.next_offset}")
            self._write(records, epoch)
        if failure is not None:
            raise failure
        return self.clock.monotonic_ms()

    def snapshot(self, epoch: int, snapshot: StoredSnapshot, timestamp_ms: int, keep_from: int) -> float:
        self._hold(epoch)
        self.server.snapshot = snapshot
        self.server.records = [record for record in self.server.records if record.offset >= keep_from]
        return self.clock.monotonic_ms()

    def restart(self, lease: Lease, snapshot: StoredSnapshot, timestamp_ms: int, changes: Any) -> None:
        list(changes)
        self._hold(lease.epoch)
        nothing: dict[str, Any] = {"seen_offset": -1, "seen_epoch": -1, "accepted_offset": -1}
        ahead: dict[str, Any] = {"epoch": snapshot.epoch, "next_offset": snapshot.end_offset}
        self.server.lease = replace(self.server.lease, **ahead, **nothing)
        self.server.snapshot, self.server.records = snapshot, []

    def report(self, epoch: int, coordinator_id: int, part: Any) -> None:
        raise OutcomeUnknown("reports are not stored today")

    def _hold(self, epoch: int) -> None:
        lease = self.server.lease
        if lease.epoch != epoch:
            raise Deposed(f"controller {lease.holder} took the lease with epoch {lease.epoch}; this one has {epoch}")
        self.server.lease = replace(lease, renewals=lease.renewals + 1)

    def _write(self, records: Sequence[StoredRecord], epoch: int) -> None:
        self.server.records += records
        self.server.appends.append(len(records))
        self.server.written += [(epoch, record.offset) for record in records]
        self.server.lease = replace(self.server.lease, next_offset=records[-1].offset + 1)


class MemoryDatabase:
    """Runs jobs in turn on the event loop; while `open` is not set they wait, like a database that is locked.

    `away` makes every question fail, as a server does that cannot be reached. Waiting for news ends at news().
    """

    def __init__(self, clock: ManualClock, server: MemoryServer | None = None, *, shared: bool = False) -> None:
        self.shared = shared
        self.store = MemoryStore(server or MemoryServer(), clock)
        self.open = asyncio.Event()
        self.open.set()
        self.away = False
        self._notified = asyncio.Event()

    async def run(self, job: Callable[[MemoryStore], Any], timeout_ms: float | None = None) -> Any:
        await asyncio.sleep(0)
        await self.open.wait()
        if self.away:
            raise OutcomeUnknown("the database is away")
        return job(self.store)

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        return work()

    async def news(self, timeout_ms: float) -> None:
        timer = self.store.clock.call_later(timeout_ms, self._notified.set)
        await self._notified.wait()
        self._notified.clear()
        timer.cancel()

    def notify(self) -> None:
        """Something changed."""
        self._notified.set()

"""Standing for election: follow the log until the lease can be taken, keep it, give it away."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING

from tailrace.clock import Clock
from tailrace.net.backoff import Backoff
from tailrace_controller.election.lease import Judge, Tenure
from tailrace_controller.metadata_log.database import Database
from tailrace_controller.metadata_log.lease_row import Candidate, Lease
from tailrace_controller.metadata_log.stored import Deposed, OutcomeUnknown, ReplayPosition, StoredLog

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

APPEND_LEASES = 5  # a slow append keeps the row locked: it is waited for longer than a lost lease
INFINITE_MS = float("inf")


class Candidacy:
    """One controller's way to the lease and its hold on it; lease_ms counts only where others can be."""

    def __init__(
        self,
        candidate: Candidate,
        database: Database,
        clock: Clock,
        random: Random,
        log: "FilteringBoundLogger",
        lease_ms: float,
    ) -> None:
        self.candidate = candidate
        self.lease_ms = lease_ms
        self.judge = Judge(candidate, lease_ms)
        self._database = database
        self._clock = clock
        self._log = log
        self._backoff = Backoff(clock, random)

    @property
    def append_timeout_ms(self) -> float:
        """How long an append may take before its outcome is unknown."""
        return self.lease_ms * APPEND_LEASES

    def tenure(self, asked_ms: float) -> Tenure:
        """The holder's clock for a lease that was taken by a question sent then."""
        return Tenure(INFINITE_MS if self.candidate.exclusive else self.lease_ms, asked_ms)

    async def win(
        self, position: Callable[[], ReplayPosition], follow: Callable[[StoredLog], Awaitable[None]]
    ) -> StoredLog:
        """Follows the log until the lease is ours; returns what the log holds beyond the position then."""
        said = ""
        while True:
            try:
                loaded = await self._look(position, follow)
                self._backoff.reset()
                said = ""
                if loaded is not None:
                    return loaded
            except OutcomeUnknown as failure:
                if str(failure) != said:  # once, not at every attempt
                    said = str(failure)
                    self._log.warning("the metadata database cannot be used", error=said)
                await self._backoff.wait()

    async def _look(
        self, position: Callable[[], ReplayPosition], follow: Callable[[StoredLog], Awaitable[None]]
    ) -> StoredLog | None:
        lease: Lease | None = None
        if not self.candidate.exclusive:
            at = position()
            loaded = await self._database.run(lambda store: store.follow(at), self.append_timeout_ms)
            lease = loaded.lease
            may_take = self.judge.may_take(lease, loaded.asked_ms, self._clock.monotonic_ms())
            await follow(loaded)
            if not may_take:
                await self._database.news(self.judge.next_look_ms(self._clock.monotonic_ms()))
                return None
        at = position()
        return await self._database.run(lambda store: store.take(self.candidate, lease, at), self.append_timeout_ms)

    async def renew(self, epoch: int, seen_offset: int = -1, seen_epoch: int = -1) -> tuple[Lease, float]:
        """Confirms the lease; raises Deposed, or OutcomeUnknown well before others may take it."""
        return await self._database.run(lambda store: store.renew(epoch, seen_offset, seen_epoch), self.lease_ms)

    async def release(self) -> None:
        """Gives the lease to whoever wants it; to nobody's harm if that fails."""
        self.judge.stand_back(self._clock.monotonic_ms())
        try:
            await self._database.run(lambda store: store.release(self.candidate), self.lease_ms)
        except (Deposed, OutcomeUnknown) as failure:
            self._log.warning("the lease was not given back", why=str(failure))

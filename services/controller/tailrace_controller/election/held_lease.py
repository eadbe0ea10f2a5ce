"""The lease while a controller holds it: how long it may be trusted, its renewals, and why it is given away."""

import asyncio

from tailrace.clock import Clock
from tailrace_controller.election.candidacy import Candidacy
from tailrace_controller.election.lease import Tenure
from tailrace_controller.metadata_log.lease_row import Lease


class NoHeartbeats(Exception):
    """No service speaks to this controller any more; another controller may be reached."""


class HeldLease:
    """Of one controller; `holding` from begin() to end()."""

    def __init__(self, clock: Clock, candidacy: Candidacy) -> None:
        self.holding = False
        self._clock = clock
        self._candidacy = candidacy
        self._tenure: Tenure | None = None
        self._wanted = asyncio.Event()  # a renewal, before it is due
        self._silence = ""
        self._gave_away = False
        self._asked = 0  # renewals that were sent, and the newest that was confirmed
        self._answered = 0

    def begin(self, asked_ms: float) -> None:
        """The lease was taken by a question sent then."""
        self._tenure = self._candidacy.tenure(asked_ms)
        self.holding = True
        self._silence = ""
        self._wanted.clear()

    def end(self) -> None:
        """This controller resigned."""
        self.holding = False

    @property
    def is_fresh(self) -> bool:
        """Whether it is held, and the database has said so recently."""
        return self.holding and self._tenure is not None and self._tenure.holds(self._clock.monotonic_ms())

    @property
    def age_ms(self) -> float:
        """Since the database confirmed it; -1 on a standby."""
        return -1.0 if self._tenure is None or not self.holding else self._tenure.age_ms(self._clock.monotonic_ms())

    def want_renewal(self) -> int:
        """Has it renewed at once; the number of that renewal, for is_renewed."""
        self._wanted.set()
        return self._asked + 1

    def is_renewed(self, number: int) -> bool:
        """Whether a renewal of this number or a later one was confirmed."""
        return self._answered >= number

    def give_away(self, why: str) -> bool:
        """Has until_due raise NoHeartbeats; False for a second time before a heartbeat: no other one wants it."""
        if self._gave_away:
            return False
        self._gave_away = True
        self._silence = why
        self._wanted.set()
        return True

    def on_heartbeat(self) -> None:
        """A service speaks to this controller."""
        self._gave_away = False

    async def until_due(self) -> None:
        """Waits until a renewal is due or wanted; an exclusive lease is renewed where one is wanted only."""
        assert self._tenure is not None
        if self._candidacy.candidate.exclusive:
            await self._wanted.wait()
        else:
            timer = self._clock.call_later(self._tenure.due_ms(self._clock.monotonic_ms()), self._wanted.set)
            try:
                await self._wanted.wait()
            finally:
                timer.cancel()
        if self._silence:
            raise NoHeartbeats(self._silence)
        self._wanted.clear()

    async def renew(self, epoch: int) -> tuple[Lease, float]:
        """Asks the database; returns the row and when it was asked. Raises Deposed or OutcomeUnknown."""
        self._asked += 1
        return await self._candidacy.renew(epoch)

    def renewed(self, asked_ms: float) -> None:
        """The renewal is confirmed."""
        self._answered = self._asked
        self.confirmed(asked_ms)

    def confirmed(self, asked_ms: float) -> None:
        """The database confirmed the epoch to a question that was sent then: a renewal, an append, a snapshot."""
        assert self._tenure is not None
        self._tenure.renewed(asked_ms)

"""How long a connection may be quiet: idle ones, frames that never become whole, clients that never read.

One sweep over all connections every few seconds, with one clock for all of them: nothing is timed per request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

_INTERVAL_MS_MIN = 10.0
IDLE = "idle"


@dataclass(frozen=True, slots=True)
class ConnectionDeadlines:
    """The bounds, in milliseconds and bytes; idle_ms of 0 or less is never, as in Apache Kafka."""

    idle_ms: float = 600_000
    head_ms: float = math.inf  # a frame's first bytes
    dribble_ms: float = math.inf  # a frame that has begun must bring dribble_bytes in this time
    dribble_bytes: int = 4096

    @property
    def interval_ms(self) -> float:
        """How often to look; infinite where nothing is bounded."""
        idle_ms = self.idle_ms if self.idle_ms > 0 else math.inf
        return max(min(self.head_ms, self.dribble_ms, idle_ms) / 2, _INTERVAL_MS_MIN)


class Progress(NamedTuple):
    """The state of one connection at a sweep."""

    received_bytes: int
    sent_bytes: int  # or those unsent: any number that changes as answers are taken
    begun: bool  # the rest of a frame is waited for
    head: bool  # of which not even the head is there
    unsent: bool  # answers wait for the client
    answer_pending: bool  # a request waits for its answer, and is waited with


class IdleTimer:
    """One connection's time without progress, counted from sweep to sweep."""

    __slots__ = ("_seen_bytes", "quiet_ms", "torn_bytes", "torn_ms")

    def __init__(self) -> None:
        self._seen_bytes = (0, 0)  # received and sent, as the last sweep saw them
        self.quiet_ms = 0.0
        self.torn_ms = 0.0
        self.torn_bytes = 0

    def judge(self, deadlines: ConnectionDeadlines, passed_ms: float, now: Progress) -> str:
        """Called by each sweep: says why the connection must go, IDLE or nothing."""
        seen, self._seen_bytes = self._seen_bytes, (now.received_bytes, now.sent_bytes)
        came = now.received_bytes - seen[0]
        if not now.begun:
            self.whole()
        elif why := self.torn(deadlines, passed_ms, came, head=now.head):
            return why
        moved = seen != self._seen_bytes or (now.answer_pending and not now.unsent)
        return self.idle(deadlines, passed_ms, moved=moved, unsent=now.unsent, answer_pending=now.answer_pending)

    def torn(self, deadlines: ConnectionDeadlines, passed_ms: float, came_bytes: int, *, head: bool) -> str:
        """The client has begun a frame (or only its head) and we wait for the rest; says why it must go, or nothing.

        Who brings enough is no dribbler, though each sweep may find another of its frames half there.
        """
        self.torn_ms += passed_ms
        self.torn_bytes += came_bytes
        if self.torn_bytes >= deadlines.dribble_bytes:
            self.whole()
        elif head and self.torn_ms > deadlines.head_ms:
            return f"no whole request head within {self.torn_ms:.0f} ms"
        elif self.torn_ms > deadlines.dribble_ms:
            return f"a frame brought {self.torn_bytes} bytes in {self.torn_ms:.0f} ms"
        return ""

    def whole(self) -> None:
        """No frame is waited for."""
        self.torn_ms, self.torn_bytes = 0.0, 0

    def idle(
        self, deadlines: ConnectionDeadlines, passed_ms: float, *, moved: bool, unsent: bool, answer_pending: bool
    ) -> str:
        """Says why the connection must go, IDLE (no reason to log) or nothing.

        moved: bytes came or went since the last sweep; unsent: answers wait for the client; answer_pending: a
        request waits for its answer, and is waited with.
        """
        self.quiet_ms = 0.0 if moved else self.quiet_ms + passed_ms
        if deadlines.idle_ms <= 0 or self.quiet_ms < deadlines.idle_ms:
            return ""
        if unsent:
            return f"the client has taken no answer for {self.quiet_ms:.0f} ms"
        return "" if answer_pending else IDLE

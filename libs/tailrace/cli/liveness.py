"""Whether a child of `up` still answers: its health page is asked over and over, and long silence is judged.

Nothing here waits: a question is a socket in the supervisor's selector, and time is an argument, in milliseconds.
Whatever comes back shows that the child's event loop turns: a page, also one that says that the child is not well, or
the end of the connection.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from enum import Enum

from tailrace.net.address import Address

NOTICED_MS = 5_000.0
OVERDUE_MS = 10_000.0
# No more than this counts between two looks: while `up` itself stood still (Ctrl-Z stops the children, too), nobody
# could answer it.
LOOKED_EVERY_MS = 1_000.0
_COUNTED_MOST_MS = 2 * LOOKED_EVERY_MS
_QUESTION = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"


class LivenessStep(Enum):
    """What is to be done about a silent child now."""

    NOTHING = "nothing"
    TELL = "tell"
    KILL = "kill"


class Liveness:
    """Of one life of one child."""

    __slots__ = ("_asked", "_looked_at_ms", "_noticed", "_silent_ms")

    def __init__(self) -> None:
        self._asked = False
        self._looked_at_ms = 0.0
        self._silent_ms = 0.0
        self._noticed = False

    def asked(self, now_ms: float) -> None:
        """A question is on its way."""
        self._asked, self._looked_at_ms, self._silent_ms = True, now_ms, 0.0

    def answered(self) -> bool:
        """It came back; returns whether the silence before it had been told."""
        self._asked, self._silent_ms = False, 0.0
        noticed, self._noticed = self._noticed, False
        return noticed

    def look(self, now_ms: float) -> LivenessStep:
        """To be called at least every LOOKED_EVERY_MS; TELL comes once in a silence, KILL again and again."""
        if not self._asked:
            return LivenessStep.NOTHING
        self._silent_ms += min(now_ms - self._looked_at_ms, _COUNTED_MOST_MS)
        self._looked_at_ms = now_ms
        if self._silent_ms >= OVERDUE_MS:
            return LivenessStep.KILL
        if self._silent_ms >= NOTICED_MS and not self._noticed:
            self._noticed = True
            return LivenessStep.TELL
        return LivenessStep.NOTHING


class Probe:
    """One life of one child; closed with it."""

    def __init__(self, selector: selectors.BaseSelector, health: str) -> None:
        self.came_back = False  # a silence that had been told is over; whoever reads it takes it away
        self._selector = selector
        self._address = Address.parse(health)
        self._liveness = Liveness()
        self._sock: socket.socket | None = None

    def look(self, now_ms: float) -> LivenessStep:
        """Asks again if the last question was answered; else says what the silence asks for."""
        if self._sock is None:
            self._ask(now_ms)
        return self._liveness.look(now_ms)

    def close(self) -> None:
        """Forgets the question."""
        if self._sock is not None:
            self._selector.unregister(self._sock)
            self._sock.close()
            self._sock = None

    def _ask(self, now_ms: float) -> None:
        family = socket.AF_INET6 if ":" in self._address.host else socket.AF_INET
        self._sock = sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        sock.connect_ex((self._address.host, self._address.port))
        self._selector.register(sock, selectors.EVENT_WRITE, self._on_connected)
        self._liveness.asked(now_ms)

    def _on_connected(self) -> None:
        sock = self._sock
        if sock is None:
            return
        try:
            sock.send(_QUESTION)
        except OSError:
            self._on_answer()  # refused: it ends or begins, and does not hang
            return
        self._selector.modify(sock, selectors.EVENT_READ, self._on_answer)

    def _on_answer(self) -> None:
        with contextlib.suppress(OSError):
            if self._sock is not None:
                self._sock.recv(1)
        self.close()
        self.came_back = self._liveness.answered() or self.came_back

"""The handshakes of one listener: bounded in time, in number at a turn of the event loop, and in lines of the log.

A handshake takes some tenths of a millisecond of the processor, or more (a signature). A storm of them goes in turns:
a few, then all else that is ready, then the next few.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Cancellable, Clock
from tailrace.net.address import Address
from tailrace.net.limits.seldom import SeldomWarning
from tailrace.net.tls.distinguished_name import not_after_ms, subject_of
from tailrace.net.tls.encrypted_socket import EncryptedSocket
from tailrace.net.tls.principal_rules import PrincipalRules
from tailrace.net.tls.reasons import said
from tailrace.net.tls.reload import ServerContexts
from tailrace.net.tls.settings import TlsSettings, server_context

DEADLINE_MS = 10_000.0
HANDSHAKES_MAX = 1_024  # under way; each takes some 30 KiB
_STEPS_A_TURN = 2
_READ_BYTES = 16_384
_MOST_BYTES = 262_144  # of one handshake; a client's chain of certificates is most of it
_HANDSHAKE = 0x16  # the first byte of every connection of TLS
_METHODS = (b"GET", b"POS", b"PUT", b"HEA", b"DEL", b"OPT", b"CON", b"PAT", b"PRI")

# (socket, principal's name or None) of a client that is through.
Done = Callable[[EncryptedSocket, str | None], None]


class Handshakes:
    """What has connected and not finished its handshake."""

    def __init__(
        self,
        contexts: ServerContexts,
        clock: Clock,
        log: FilteringBoundLogger,
        name_of: Callable[[str], str] = str,
        *,
        deadline_ms: float = DEADLINE_MS,
    ) -> None:
        """name_of: from a certificate's subject to the user's name; ValueError refuses the client."""
        self.name_of = name_of
        self.deadline_ms = deadline_ms
        self.failed_count = 0
        self.done_count = 0
        self.clock = clock
        self._contexts = contexts
        self._refusals = SeldomWarning(log, clock.monotonic_ms, "TLS connection refused")
        self._open: dict[Handshake, None] = {}  # oldest first
        self._hosts: Counter[str] = Counter()  # of `_open`
        self._ready: deque[Handshake] = deque()
        self._turning = False

    def __len__(self) -> int:
        return len(self._open)

    def count_of(self, host: str) -> int:
        """How many of a client's address are under way."""
        return self._hosts[host]

    @property
    def counts(self) -> tuple[int, int]:
        """Handshakes that succeeded, and that were refused."""
        return self.done_count, self.failed_count

    def begin(self, sock: socket.socket, client: str, done: Done) -> None:
        """Takes an accepted non-blocking socket; `done` is called once it encrypts, never if it is refused."""
        handshake = Handshake(self, EncryptedSocket(sock, self._contexts.current()), client, done)
        self._open[handshake] = None
        self._hosts[handshake.host] += 1
        handshake.wait()
        if len(self._open) > HANDSHAKES_MAX:
            self._oldest_gives_way()

    def _oldest_gives_way(self) -> None:
        """Of those that wait for their client: others are through in their turn."""
        oldest = next((handshake for handshake in self._open if handshake.waits), None)
        if oldest is not None:
            oldest.refuse(f"{HANDSHAKES_MAX} newer handshakes are under way")

    def ready(self, handshake: Handshake) -> None:
        """It can go on, in its turn."""
        self._ready.append(handshake)
        self._turn_soon()

    def _turn_soon(self) -> None:
        if not self._turning:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turning = False
        steps = min(_STEPS_A_TURN, len(self._ready))
        if len(self._ready) > steps:
            self._turn_soon()
        for _ in range(steps):
            self._ready.popleft().step()

    def name_of_valid(self, certificate: bytes) -> str:
        """The user's name by a verified certificate; ValueError refuses the client.

        OpenSSL looks at the time in a whole handshake alone: one that resumes a session goes without, for two hours.
        """
        if not_after_ms(certificate) <= self.clock.wall_ms():
            raise ValueError("the client's certificate has expired since its session began")
        return self.name_of(subject_of(certificate))

    def over(self, handshake: Handshake, refused: str = "") -> None:
        """It has ended; a refusal has a reason, and one line of the log, but not each of a storm of them."""
        del self._open[handshake]
        self._hosts[handshake.host] -= 1
        if not self._hosts[handshake.host]:
            del self._hosts[handshake.host]
        if refused:
            self.failed_count += 1
            self._refusals.say(client=handshake.client, why=refused)

    def close(self) -> None:
        """Ends them all."""
        for handshake in list(self._open):
            handshake.close()


def open_handshakes(
    settings: TlsSettings | None, principal_rules: str, clock: Clock, log: FilteringBoundLogger
) -> Handshakes | None:
    """Those of one listener; None where it is plain. Raises ConfigError.

    principal_rules: ssl.principal.mapping.rules.
    """
    if settings is None:
        return None
    return Handshakes(ServerContexts(settings, clock, log), clock, log, PrincipalRules(principal_rules).name)


def check_tls(settings: TlsSettings | None, principal_rules: str, now_ms: int) -> None:
    """Raises ConfigError for what `open_handshakes` would refuse."""
    if settings is not None:
        server_context(settings, now_ms)
        PrincipalRules(principal_rules)


class Handshake:
    """One of them."""

    def __init__(self, owner: Handshakes, sock: EncryptedSocket, client: str, done: Done) -> None:
        self.client = client
        self.host = Address.parse(client).host
        self._owner = owner
        self._sock = sock
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._came_bytes = 0
        self.waits = False  # for its client
        self._writing = False
        self._ended = False
        self._deadline: Cancellable = owner.clock.call_later(owner.deadline_ms, self._late)

    def wait(self) -> None:
        """Until the client sends, or takes what it was sent."""
        self.waits = True
        if self._sock.unsent:
            self._writing = True
            self._loop.add_writer(self._sock.fileno(), self._woken)
        else:
            self._loop.add_reader(self._sock.fileno(), self._woken)

    def _woken(self) -> None:
        self._stop_watching()
        self.waits = False
        self._owner.ready(self)

    def _stop_watching(self) -> None:
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._sock.fileno())
        else:
            self._loop.remove_reader(self._sock.fileno())

    def step(self) -> None:
        """Takes what came, as far as it goes."""
        if self._ended:
            return
        try:
            if self._sock.unsent:
                self._sock.flush()
                self.wait()
                return
            came = self._sock.plain.recv(_READ_BYTES)
            if not came:
                self._gone()
                return
            first, self._came_bytes = not self._came_bytes, self._came_bytes + len(came)
            if first and came[0] != _HANDSHAKE:
                self.refuse(_what(came))
            elif self._came_bytes > _MOST_BYTES:
                self.refuse(f"a handshake of more than {_MOST_BYTES} bytes")
            else:
                self._advance(came)
        except (BlockingIOError, InterruptedError):
            self.wait()
        except OSError as broken:
            self.refuse(f"the connection broke in its handshake: {broken.strerror or broken}")

    def _advance(self, came: bytes) -> None:
        try:
            done = self._sock.handshake(came)
        except ssl.SSLError as failed:
            with contextlib.suppress(OSError):
                self._sock.flush()  # an alert says to the client what is wrong
            self.refuse(f"the handshake failed: {said(failed)}")
            return
        self._sock.flush()
        if not done:
            self.wait()
            return
        try:
            certificate = self._sock.peer_certificate()
            name = None if certificate is None else self._owner.name_of_valid(certificate)
        except ValueError as wrong:
            self.refuse(str(wrong))
            return
        self._end()
        self._owner.done_count += 1
        try:
            self._done(self._sock, name)
        except OSError:  # the client is gone
            self._sock.close()

    def _late(self) -> None:
        self.refuse(f"no whole handshake within {self._owner.deadline_ms:.0f} ms")

    def _gone(self) -> None:
        """Nothing is said of a client that sent nothing: something looked whether anybody listens here."""
        if self._came_bytes:
            self.refuse("the client left in its handshake")
        else:
            self.close()

    def refuse(self, why: str) -> None:
        """Closes it, with a line of the log."""
        if not self._ended:
            self._end(why)
            self._sock.close()

    def close(self) -> None:
        """Ends it without a word in the log."""
        if not self._ended:
            self._end()
            self._sock.close()

    def _end(self, refused: str = "") -> None:
        self._ended = True
        self._deadline.cancel()
        self._stop_watching()
        self._owner.over(self, refused)


def _what(first: bytes) -> str:
    """Says what was probably sent to the port."""
    if first[:3] in _METHODS:
        return "an HTTP request was sent to the TLS port"
    if first[0] == 0:
        return "a plaintext Kafka request was sent to the TLS port: the client needs security.protocol=SSL"
    return "what was sent to the TLS port is no TLS"

"""The accepting side on TCP: no byte of an internal connection is decoded before it has proved the cluster's secret."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

from structlog.typing import FilteringBoundLogger

from tailrace.net.address import Address
from tailrace.net.authentication.proof import NONCE_BYTES, NotProven, Secret, ServerProof

DEADLINE_MS = 5_000.0
UNPROVEN_MAX = 128
_BUFFER_BYTES = 1_024
_LOG_EVERY_MS = 10_000.0


class Authentication:
    """What a role's listeners know of connections that have yet to prove themselves; a Unix socket's need not.

    At most UNPROVEN_MAX wait at a time: the oldest gives way, for a role is through within a round trip.
    """

    def __init__(self, secret: Secret | None, log: FilteringBoundLogger, deadline_ms: float = DEADLINE_MS) -> None:
        self.secret = secret
        self.deadline_ms = deadline_ms
        self.failed_count = 0
        self.successful_count = 0
        self._log = log
        self._waiting: dict[Unproven, None] = {}
        self._said: asyncio.TimerHandle | None = None
        self._unsaid_count = 0

    @property
    def waiting_count(self) -> int:
        """Connections that have yet to prove themselves."""
        return len(self._waiting)

    def began(self, connection: Unproven) -> None:
        """Counts a connection in."""
        self._waiting[connection] = None
        if len(self._waiting) > UNPROVEN_MAX:
            next(iter(self._waiting)).refuse(f"{UNPROVEN_MAX} newer connections wait to prove the cluster's secret")

    def ended(self, connection: Unproven, *, proven: bool) -> None:
        """It waits no more; one that sent nothing is neither a success nor a failure."""
        self._waiting.pop(connection, None)
        self.successful_count += proven

    def failed(self, client: str, why: str) -> None:
        """Counts a refusal, and says so, but not for each of a storm of them."""
        self.failed_count += 1
        if self._said is not None:
            self._unsaid_count += 1
            return
        unsaid, self._unsaid_count = self._unsaid_count, 0
        more = {"more_since_the_last_line": unsaid} if unsaid else {}
        self._log.warning("internal connection refused", client=client, why=why, see="internal.secret.file", **more)
        self._said = asyncio.get_running_loop().call_later(_LOG_EVERY_MS / 1000, self._say_again)

    def _say_again(self) -> None:
        self._said = None

    def close(self) -> None:
        """Closes what waits."""
        for connection in list(self._waiting):
            connection.close()
        if self._said is not None:
            self._said.cancel()


class Unproven(asyncio.BufferedProtocol):
    """One accepted socket until it has proved the secret; then `follow` makes its protocol of what came behind."""

    def __init__(
        self, authentication: Authentication, secret: Secret, follow: Callable[[bytes], asyncio.BufferedProtocol]
    ) -> None:
        self._authentication = authentication
        self._follow = follow
        self._proof = ServerProof(secret, secrets.token_bytes(NONCE_BYTES))
        self._buffer = bytearray(_BUFFER_BYTES)
        self._over = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        authentication = self._authentication
        self._deadline = asyncio.get_running_loop().call_later(
            authentication.deadline_ms / 1000, self.refuse, "its proof of the cluster's secret did not come in time"
        )
        authentication.began(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._over:
            return
        try:
            out = self._proof.receive(bytes(self._buffer[:nbytes]))
        except NotProven as wrong:
            self.refuse(str(wrong))
            return
        if out:
            self._transport.write(out)
        if self._proof.proven:
            self._end(proven=True)
            protocol = self._follow(self._proof.rest)
            self._transport.set_protocol(protocol)
            protocol.connection_made(self._transport)

    def refuse(self, why: str) -> None:
        """Closes at once, with nothing said to the other side."""
        peer = self._transport.get_extra_info("peername")
        self._authentication.failed(str(Address(*peer[:2])) if peer else "", why)
        self.close()

    def close(self) -> None:
        """Ends it without a word in the log."""
        self._end(proven=False)
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._over and self._proof.begun:
            self.refuse("it ended before it had proved the cluster's secret")
        elif not self._over:  # a controller that looks whether anybody listens here
            self._end(proven=False)

    def _end(self, *, proven: bool) -> None:
        self._over = True
        self._deadline.cancel()
        self._authentication.ended(self, proven=proven)

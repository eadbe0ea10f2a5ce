"""What the admin port asks of its clients: TLS, a login, rights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from structlog.typing import FilteringBoundLogger

from tailrace.access.authorizer import Authorizer
from tailrace.access.oauthbearer.server import OAUTHBEARER, TokenVerifier
from tailrace.access.refused import AuthenticationRefused
from tailrace.access.sasl import WRONG_PASSWORD
from tailrace.clock import Clock
from tailrace.net.tls.handshakes import Handshakes
from tailrace_gateway.rest.access.sessions import BrowserSessions

BASIC: Final = "BASIC"  # a password by HTTP Basic or by the form of the login page


class UserCheck(Protocol):
    """The part of tailrace_gateway.rest.access.passwords.Passwords that a login needs."""

    async def are_right(self, user: str, password: str) -> bool: ...


class FailedLogin(NamedTuple):
    """A login that was refused, as the log says it."""

    client: str  # its address
    mechanism: str
    user: str
    why: str


class Login(NamedTuple):
    """How users log in: a wrong password is answered after a while (connection.failed.authentication.delay.ms)."""

    passwords: UserCheck
    sessions: BrowserSessions
    failed_delay_ms: float
    on_failed: Callable[[FailedLogin], None]
    verifier: TokenVerifier | None = None  # of bearer tokens, where clients of Kafka have OAUTHBEARER

    async def is_right(self, client: str, user: str, password: str, clock: Clock) -> bool:
        """Whether this is the user's password; one that is not is reported."""
        if await self.passwords.are_right(user, password):
            return True
        await self._fail(FailedLogin(client, BASIC, user, WRONG_PASSWORD), clock)
        return False

    async def user_of(self, client: str, token: str, clock: Clock) -> str | None:
        """The user of a bearer token; None for one that is not good, which is reported."""
        try:
            return (await self.verifier.verify(token)).name if self.verifier is not None else None
        except AuthenticationRefused as refused:
            await self._fail(FailedLogin(client, OAUTHBEARER, "", str(refused)), clock)
            return None

    async def _fail(self, failed: FailedLogin, clock: Clock) -> None:
        """Reports it, and waits before its answer."""
        self.on_failed(failed)
        await clock.sleep(self.failed_delay_ms)


class RestAccess(NamedTuple):
    """Without any of them the port is open to all that reach it."""

    handshakes: Handshakes | None = None
    login: Login | None = None
    authorizer: Authorizer | None = None
    log: FilteringBoundLogger | None = None  # for what cannot be accepted over TLS


OPEN: Final = RestAccess()

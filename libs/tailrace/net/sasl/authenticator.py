"""SaslHandshake v0-1 and SaslAuthenticate v0-2, and the raw tokens of handshake v0: Kafka's SaslServerAuthenticator.

v1 of the handshake: tokens come in SaslAuthenticate (KIP-152). v1 of SaslAuthenticate: the answer says how long the
session lasts, and the client authenticates again before its end (KIP-368). After a failure the answer waits for
connection.failed.authentication.delay.ms, and the connection is closed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final, cast

from structlog.typing import FilteringBoundLogger

from tailrace.access import sasl
from tailrace.access.oauthbearer.server import OAuthBearerSaslServer, TokenVerifier
from tailrace.access.refused import AuthenticationRefused
from tailrace.access.sasl import Credentials, PlainSaslServer, SaslServer
from tailrace.access.scram import REFUSED
from tailrace.clock import Clock
from tailrace.errors import ErrorCode
from tailrace.net.identity import principal_of
from tailrace.net.limits.seldom import SeldomWarning
from tailrace.net.sasl.counts import SaslCounts
from tailrace.net.sasl.password_checks import PasswordChecks
from tailrace.net.sasl.settings import SaslSettings
from tailrace.net.session import AuthenticationState, ClientSession
from tailrace.printable import printable
from tailrace.wire.codec import Malformed
from tailrace.wire.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

_TOKENS_FROM: Final = 1  # of SaslHandshake: they have a request of their own
_AGAIN_MS: Final = 1_000
_NONCE_BYTES: Final = 24
_NAME_CHARS: Final = 128  # of a user's, as the log names it
_WHY_CHARS: Final = 256
_UNSUPPORTED: Final = "unsupported"


class SaslAuthenticator:
    """How the clients of one role's listeners log in."""

    def __init__(
        self,
        settings: SaslSettings,
        credentials: Credentials,
        clock: Clock,
        log: FilteringBoundLogger,
        new_nonce: Callable[[], str] = lambda: secrets.token_urlsafe(_NONCE_BYTES),
        verifier: TokenVerifier | None = None,
    ) -> None:
        """verifier: of the tokens of OAUTHBEARER, with that mechanism."""
        self.settings = settings
        self.counts = SaslCounts()
        self._credentials = credentials
        self._clock = clock
        self._failures = SeldomWarning(log, clock.monotonic_ms, "authentication failed")
        self._new_nonce = new_nonce
        self.verifier = verifier
        self._checks = PasswordChecks()

    def begin(self, session: ClientSession, mechanisms: tuple[str, ...] | None = None) -> None:
        """A client has connected. mechanisms: those of its listener; without any it does not log in."""
        session.on_expired = self.counts.expired
        session.sasl_mechanisms = self.settings.mechanisms if mechanisms is None else mechanisms
        if session.sasl_mechanisms:
            session.require_sasl(self.settings.max_receive_bytes, self.settings.deadline_ms)

    def go_on(self, session: ClientSession) -> None:
        """A client that another process has authenticated comes with its socket."""
        session.on_expired = self.counts.expired
        session.sasl_mechanisms = self.settings.mechanisms
        session.keep_expiry()

    async def handshake(
        self, request: SaslHandshakeRequest, version: int, session: ClientSession
    ) -> SaslHandshakeResponse:
        """The client chooses a mechanism."""
        enabled = session.sasl_mechanisms
        if not self._may_begin(session):
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
        mechanism = request.mechanism
        if mechanism not in enabled:
            await self._failed(session, _UNSUPPORTED, "", f"unsupported mechanism {_shown(mechanism)}")
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(enabled))
        server = sasl.begin(mechanism, self._credentials, self._new_nonce(), self.verifier)
        session.begin_exchange(server, raw_tokens=version < _TOKENS_FROM)
        return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=list(enabled))

    def _may_begin(self, session: ClientSession) -> bool:
        """An authenticated client may do so again, once a second, where its session has an end."""
        if session.authentication is not AuthenticationState.COMPLETE:
            return True
        passed_ms = self._clock.monotonic_ms() - session.authenticated_ms
        return session.identity.session_expiry_ms >= 0 and passed_ms >= _AGAIN_MS

    async def authenticate(
        self, request: SaslAuthenticateRequest, version: int, session: ClientSession
    ) -> SaslAuthenticateResponse:
        """A token of the exchange."""
        server = session.sasl
        if server is None:
            why = "SaslAuthenticate request received after successful authentication"
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=why, auth_bytes=b"", session_lifetime_ms=0
            )
        try:
            token, lifetime_ms = await self._step(session, server, cast(bytes, request.auth_bytes))
        except AuthenticationRefused as refused:
            await self._failed(session, server.mechanism, server.username, str(refused.__cause__ or refused))
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=str(refused),
                auth_bytes=b"",
                session_lifetime_ms=0,
            )
        return SaslAuthenticateResponse(
            error_code=ErrorCode.NONE, error_message="", auth_bytes=token, session_lifetime_ms=lifetime_ms
        )

    async def raw_token(self, token: bytes, session: ClientSession) -> bytes:
        """A token without a request around it, and the answer's. Raises Malformed: a failure has no answer."""
        server = session.sasl
        assert server is not None
        try:
            return (await self._step(session, server, token))[0]
        except AuthenticationRefused as refused:
            await self._failed(session, server.mechanism, server.username, str(refused.__cause__ or refused))
            raise Malformed("authentication failed") from None

    async def _step(self, session: ClientSession, server: SaslServer, token: bytes) -> tuple[bytes, int]:
        """The server's token, and how long the session lasts. Raises AuthenticationRefused."""
        before = session.identity
        if before.sasl_mechanism not in ("", server.mechanism):
            raise AuthenticationRefused(
                f"SASL mechanism '{server.mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{before.sasl_mechanism}'"
            )
        if isinstance(server, OAuthBearerSaslServer):
            reply = await server.evaluate(token)
            if server.refused is not None:  # the client may leave without the token that ends the exchange
                self._report(session, server.mechanism, "", str(server.refused))
        elif isinstance(server, PlainSaslServer):
            check = server.evaluate(token)
            reply = server.checked(right=await self._checks.run(check.run, before.client_host))
        else:
            try:
                reply = server.evaluate(token)
            except AuthenticationRefused as why:  # the client is told the same, whatever is wrong
                raise AuthenticationRefused(REFUSED.format(server.mechanism)) from why
        if not server.complete:
            return reply, 0
        principal = principal_of(server.username)
        if before.sasl_mechanism and principal != before.principal:
            raise AuthenticationRefused(
                f"Cannot change principals during re-authentication from {before.principal.replace(':', '.', 1)}: "
                f"{principal.replace(':', '.', 1)}"
            )
        self.counts.succeeded(server.mechanism, again=bool(before.sasl_mechanism))
        lifetime_ms = self._lifetime_ms(server)
        session.authenticated(principal, server.mechanism, lifetime_ms)
        return reply, lifetime_ms

    def _lifetime_ms(self, server: SaslServer) -> int:
        """connections.max.reauth.ms, and not beyond the end of a token; 0: as long as the connection."""
        most_ms = self.settings.max_reauth_ms
        if not isinstance(server, OAuthBearerSaslServer):
            return most_ms
        left_ms = max(1, server.expires_ms - int(self._clock.wall_ms()))
        return min(most_ms, left_ms) if most_ms else left_ms

    def _report(self, session: ClientSession, mechanism: str, username: str, why: str) -> None:
        self.counts.failed(mechanism, again=bool(session.identity.sasl_mechanism))
        self._failures.say(
            client=session.identity.client,
            mechanism=mechanism,
            user=_shown(username),
            why=printable(why[:_WHY_CHARS]),
        )

    async def _failed(self, session: ClientSession, mechanism: str, username: str, why: str) -> None:
        if not _is_reported(session.sasl):
            self._report(session, mechanism, username, why)
        session.fail_authentication()
        await self._clock.sleep(self.settings.failed_delay_ms)
        session.finish()

    def close(self) -> None:
        """Ends the thread; checks that wait for it are not done."""
        self._checks.close()


def _is_reported(server: SaslServer | None) -> bool:
    return isinstance(server, OAuthBearerSaslServer) and server.refused is not None


def _shown(text: str) -> str:
    return printable(text[:_NAME_CHARS])

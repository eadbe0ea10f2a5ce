"""The accepting side on TCP: services log in by SASL before a request of theirs is decoded, as clients do elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.net.authentication.secret import MECHANISM, Secret
from tailrace.net.context import Connected, Context
from tailrace.net.dispatch import Service
from tailrace.net.limits.seldom import SeldomWarning
from tailrace.net.sasl.authenticator import SaslAuthenticator
from tailrace.net.sasl.opening import sasl_handlers
from tailrace.net.sasl.settings import SaslSettings
from tailrace.net.session import AuthenticationState
from tailrace.wire.apis import ApiKey
from tailrace.wire.messages import SaslAuthenticateRequest, SaslAuthenticateResponse

DEADLINE_MS: Final = 5_000.0
WAITING_MAX: Final = 128
_HANDSHAKE: Final = 1  # its tokens come in SaslAuthenticate, which counts a login
_FRAME_BYTES: Final = 1_024  # a token of SCRAM has some 200 bytes


class Authentication:
    """What a role's internal listener knows of connections that have yet to log in; a Unix socket's need not.

    At most WAITING_MAX wait at a time: the oldest gives way, for a service is through within three round trips.
    """

    def __init__(
        self, secret: Secret | None, clock: Clock, log: FilteringBoundLogger, deadline_ms: float = DEADLINE_MS
    ) -> None:
        self.secured = secret is not None
        self.failed_count = 0
        self.successful_count = 0
        mechanisms = (MECHANISM.label,) if secret is not None else ()
        settings = SaslSettings(mechanisms, _FRAME_BYTES, deadline_ms=deadline_ms)
        self.sasl = SaslAuthenticator(settings, secret or Secret(b""), clock, log)
        self._refused = SeldomWarning(log, clock.monotonic_ms, "internal connection refused")
        self._waiting: dict[Connected, bool] = {}

    @property
    def waiting_count(self) -> int:
        """Connections that have yet to log in."""
        return len(self._waiting)

    def before(self, service: Service) -> Service:
        """The service, for those that have logged in."""
        handlers = sasl_handlers(self.sasl)
        authenticate = handlers[ApiKey.SASL_AUTHENTICATE]

        async def count(request: SaslAuthenticateRequest, context: Context, role: object) -> SaslAuthenticateResponse:
            answer: SaslAuthenticateResponse = await authenticate(request, context, role)
            if context.connection.session.authentication is AuthenticationState.COMPLETE:
                self.successful_count += self._waiting.pop(context.connection, False)
            return answer

        logins = {**handlers, ApiKey.SASL_AUTHENTICATE: count}
        handshake = replace(service.apis[ApiKey.SASL_HANDSHAKE], min_version=_HANDSHAKE)
        apis = {**service.apis, ApiKey.SASL_HANDSHAKE: handshake}
        return replace(service, handlers={**service.handlers, **logins}, apis=apis, authentication=self)

    def began(self, connection: Connected) -> None:
        """A connection over TCP, which has to log in."""
        self._waiting[connection] = True
        self.sasl.begin(connection.session)
        if len(self._waiting) > WAITING_MAX:
            next(iter(self._waiting)).give_way(f"{WAITING_MAX} newer connections wait to log in")

    def ended(self, connection: Connected, *, begun: bool) -> None:
        """A connection is gone; one that sent nothing before its login is neither a success nor a failure."""
        if self._waiting.pop(connection, False):
            self.failed_count += begun

    def refused(self, client: str, why: str) -> None:
        """A connection was closed that has no login, since its kind of socket says enough."""
        self.failed_count += 1
        self._refused.say(client=client, why=why)

    def close(self) -> None:
        """Ends the threads of logins."""
        self.sasl.close()

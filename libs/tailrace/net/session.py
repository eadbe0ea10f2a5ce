"""The session of one client, under both connection stacks (tailrace.net.connection and the gateway's relay).

A connection carries bytes; what is known of the client behind it, and what holds it back, is here: identity,
authentication, quotas with their mute, memory, and the time without progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, Protocol, TypeVar

from tailrace.access.authorizer import Authorizer, Denied, Grants
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.access.sasl import SaslServer
from tailrace.clock import Cancellable
from tailrace.net.identity import Identity
from tailrace.net.limits.deadlines import IdleTimer
from tailrace.net.limits.request_memory import EndedHolder, MemoryHolder
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.quotas.meter import UNMETERED, Meter, MeterOf
from tailrace.net.quotas.mute import Mute
from tailrace.net.quotas.work import WorkTimer
from tailrace.quota.pending_throttle import PendingThrottle, no_pending_throttle
from tailrace.wire.apis import ApiKey
from tailrace.wire.malformed import Malformed

_Made = TypeVar("_Made")
_SOFTWARE_CHARS: Final = 64
_SASL_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE)
_SASL_AUTHENTICATE: Final = int(ApiKey.SASL_AUTHENTICATE)


class AuthenticationState(Enum):
    """How far the authentication of a client is (Apache Kafka's SaslServerAuthenticator)."""

    HANDSHAKE = "no mechanism is chosen"
    AUTHENTICATE = "a mechanism is chosen"
    COMPLETE = "authenticated"
    EXPIRED = "the session is over, and the client has to authenticate again"
    FAILED = "authentication failed"


# The requests that each state takes; None: all.
TAKEN: Final[Mapping[AuthenticationState, frozenset[int] | None]] = {
    AuthenticationState.HANDSHAKE: frozenset({int(ApiKey.API_VERSIONS), _SASL_HANDSHAKE}),
    AuthenticationState.AUTHENTICATE: frozenset({_SASL_AUTHENTICATE}),
    AuthenticationState.COMPLETE: None,
    AuthenticationState.EXPIRED: frozenset({_SASL_HANDSHAKE}),
    AuthenticationState.FAILED: frozenset(),
}
AUTHENTICATION_MS: Final = 30_000.0  # from a connection's begin, or the handshake to authenticate again
_FRAME_BYTES: Final = 16_384  # of a client that is not authenticated: a token of PLAIN or SCRAM has 4 KiB at most


class SessionHolder(MemoryHolder, Protocol):
    """The connection, as its session sees it."""

    def throttled(self) -> None:
        """The client was told to wait: it is muted by `mute` as soon as no frame is in passage."""

    def unmuted(self) -> None:
        """Requests may be handled again."""

    def authentication_changed(self) -> None:
        """The session takes other requests now; it may have another principal."""

    def finish(self) -> None:
        """Reads no more; it is closed once what is due has left."""


class SessionClock(Protocol):
    """The part of tailrace.clock.Clock that a session needs."""

    def monotonic_ms(self) -> float: ...

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable: ...


class LoopClock:
    """The time of the running event loop."""

    def monotonic_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)


LOOP_CLOCK: Final = LoopClock()


class _Ended(EndedHolder):
    """The holder of a session whose connection is gone."""

    def throttled(self) -> None:
        return

    def unmuted(self) -> None:
        return

    def authentication_changed(self) -> None:
        return

    def finish(self) -> None:
        return


_ENDED: Final = _Ended()
_NO_GRANTS: Final = Grants()


def _nothing() -> None:
    return None


def _unmetered(client_id: bytes) -> Meter:
    return UNMETERED


def _uncounted(throttle_time_ms: int) -> None:
    return None


class ClientSession:
    """One client from its connection's first byte to its last."""

    __slots__ = (
        "_answers",
        "_authentication_ms",
        "_authorizer",
        "_clock",
        "_deadline",
        "_holder",
        "_mute",
        "_pending_throttle",
        "_reported_ms",
        "_sasl_bytes",
        "authenticated_ms",
        "authentication",
        "client_id",
        "grants",
        "identity",
        "is_service",
        "may_owe",
        "meter",
        "meter_of",
        "on_expired",
        "on_throttle",
        "quiet",
        "raw_tokens",
        "restricted",
        "sasl",
        "sasl_mechanisms",
        "share",
        "software_name",
        "software_version",
        "throttle_time_ms",
        "timer",
    )

    def __init__(
        self,
        holder: SessionHolder,
        memory: RoleMemory,
        identity: Identity | None = None,
        meter_of: MeterOf = _unmetered,
        clock: SessionClock = LOOP_CLOCK,
        authorizer: Authorizer | None = None,
    ) -> None:
        """authorizer: without one the client may do everything."""
        self.share = memory.requests.share(holder)
        self.authentication = AuthenticationState.COMPLETE  # by a certificate of TLS, or anonymous
        self.sasl: SaslServer | None = None  # the exchange at hand
        self.sasl_mechanisms: tuple[str, ...] = ()  # of its listener
        self.authenticated_ms = 0.0  # when the last one was complete
        self.raw_tokens = False  # what follows are its tokens, without a header (SaslHandshake v0)
        self.on_expired: Callable[[], None] = _nothing
        self._sasl_bytes = _FRAME_BYTES
        self._authentication_ms = AUTHENTICATION_MS
        self._deadline: Cancellable | None = None  # of authentication, then of the session
        self.software_name = self.software_version = ""
        self.client_id = b""  # of the last request that was looked at
        self.meter_of = meter_of
        self.meter = meter_of(b"")
        self.may_owe = True  # no data has passed for this client id yet
        self.timer = WorkTimer()  # of a client with a request_percentage
        self.throttle_time_ms = 0  # that the client was told; nothing is handled until it is unmuted
        self.on_throttle: Callable[[int], None] = _uncounted
        self.quiet = IdleTimer()
        self._holder = holder
        self._authorizer = authorizer
        self._answers = memory.answers
        self._clock = clock
        self._reported_ms = 0  # of throttle_time_ms what the connection is not muted for yet
        self._pending_throttle: PendingThrottle | None = None  # what was charged then
        self._mute: Mute | None = None
        self.identify(identity or Identity())

    # -- identity -------------------------------------------------------------------------------------------------

    def identify(self, identity: Identity) -> None:
        """The client is that one: by its socket, its certificate, or a preamble of a service that relays for it."""
        self.identity = identity
        self.is_service = identity.is_service
        self.restricted = self._authorizer is not None and not identity.is_service
        self.grants = _NO_GRANTS
        self.share.belongs_to(identity.client_host)

    def name_software(self, name: str, version: str) -> None:
        """The client's library, as its ApiVersions request names it (KIP-511)."""
        self.software_name, self.software_version = name[:_SOFTWARE_CHARS], version[:_SOFTWARE_CHARS]

    def authorized(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether the client may do that; a role of the cluster may do everything. Called from any thread."""
        authorizer, identity = self._authorizer, self.identity
        if authorizer is None or identity.is_service:
            return True
        return authorizer.authorize(identity.principal, identity.client_host, operation, resource_type, name)

    def authorized_by_resource_type(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the client may do that with some resource of the type."""
        authorizer, identity = self._authorizer, self.identity
        if authorizer is None or identity.is_service:
            return True
        return authorizer.authorize_by_resource_type(identity.principal, identity.client_host, operation, resource_type)

    def on_denied(self, api_key: int, denied: Denied) -> None:
        """A request of the client's was refused for want of that right."""
        if self._authorizer is not None:
            self._authorizer.on_denied(self.identity.principal, self.identity.client_host, api_key, denied)

    def may(self, operation: AclOperation, key: tuple[bool, bytes], name: str) -> bool:
        """Whether the client may read or write a topic, as `grants` remember it; key: whether by id, the id or name."""
        authorizer, identity = self._authorizer, self.identity
        if authorizer is None or identity.is_service:
            return True
        grants = self.grants = authorizer.grants(identity.principal, identity.client_host)
        if key in grants.of(operation):
            return True
        allowed = self.authorized(operation, ResourceType.TOPIC, name)
        if allowed:
            authorizer.remember(grants, operation, key)
        return allowed

    # -- authentication -------------------------------------------------------------------------------------------

    def require_sasl(self, most_bytes: int, within_ms: float = AUTHENTICATION_MS) -> None:
        """Nothing is taken but what SASL needs, until the client is authenticated.

        most_bytes: sasl.server.max.receive.size.
        """
        self._sasl_bytes = min(_FRAME_BYTES, most_bytes)
        self._authentication_ms = within_ms
        self._deadline = self._clock.call_later(within_ms, self._not_in_time)
        self._go_to(AuthenticationState.HANDSHAKE)

    def take(self, api_key: int) -> None:
        """Raises Malformed for a request that the state of authentication does not take."""
        taken = TAKEN[self.authentication]
        if taken is not None and api_key not in taken:
            if self.authentication is AuthenticationState.EXPIRED:
                self.on_expired()
            raise Malformed(f"api key {api_key} came before authentication: {self.authentication.value}")

    def most_frame_bytes(self, most_bytes: int) -> int:
        """The largest frame that is taken now, where an authenticated client's may be so large.

        After the end of a session frames are as large, so that `take` refuses them, with its reason and its count.
        """
        logged_in = self.authentication is AuthenticationState.COMPLETE or self.identity.sasl_mechanism
        return most_bytes if logged_in and not self.raw_tokens else min(self._sasl_bytes, most_bytes)

    def begin_exchange(self, server: SaslServer, *, raw_tokens: bool) -> None:
        """The client has chosen its mechanism. To authenticate again it has as long as at first."""
        if self.authentication is not AuthenticationState.HANDSHAKE:
            self.forget_expiry()
            self._deadline = self._clock.call_later(self._authentication_ms, self._not_in_time)
        self.sasl, self.raw_tokens = server, raw_tokens
        self._go_to(AuthenticationState.AUTHENTICATE)

    def authenticated(self, principal: str, mechanism: str, lifetime_ms: int) -> None:
        """The client is that principal, for so long; 0: as long as the connection, which may have ended meanwhile."""
        if self._holder is _ENDED:
            return
        self.sasl, self.raw_tokens = None, False
        expiry_ms = int(self._clock.monotonic_ms()) + lifetime_ms if lifetime_ms else -1
        self.identify(
            self.identity._replace(principal=principal, sasl_mechanism=mechanism, session_expiry_ms=expiry_ms)
        )
        self.keep_expiry()
        self._go_to(AuthenticationState.COMPLETE)

    def keep_expiry(self) -> None:
        """From now on the session ends when its identity says so: of who holds the client's socket."""
        self.authenticated_ms = self._clock.monotonic_ms()
        self.forget_expiry()
        if (expiry_ms := self.identity.session_expiry_ms) >= 0:
            self._deadline = self._clock.call_later(max(0.0, expiry_ms - self._clock.monotonic_ms()), self._expire)

    def forget_expiry(self) -> None:
        """Another process holds the client's socket now, and looks at that."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def fail_authentication(self) -> None:
        """Nothing more is taken."""
        self.sasl, self.raw_tokens = None, False
        self._go_to(AuthenticationState.FAILED)

    def finish(self) -> None:
        """The client is sent what is due, and no more is taken of it."""
        self._holder.finish()

    def _expire(self) -> None:
        """A client that is at it to authenticate again may go on (KIP-368)."""
        self._deadline = None
        if self.authentication is AuthenticationState.COMPLETE:
            self._go_to(AuthenticationState.EXPIRED)

    def _not_in_time(self) -> None:
        self._deadline = None
        self._holder.give_way(f"not authenticated within {self._authentication_ms:.0f} ms: {self.authentication.value}")

    def _go_to(self, state: AuthenticationState) -> None:
        self.authentication = state
        self._holder.authentication_changed()

    # -- quotas ---------------------------------------------------------------------------------------------------

    def rename(self, client_id: bytes) -> None:
        """Requests come under that client id now: its meter is charged."""
        self.client_id = client_id
        self.meter = self.meter_of(client_id)
        self.may_owe = True

    def meter_by(self, meter_of: MeterOf) -> None:
        """From now on meters are found so, that of the client id at hand included."""
        self.meter_of = meter_of
        self.rename(self.client_id)

    def owes(self) -> bool:
        """Whether others of this client took too much; else it would owe nothing by connecting again."""
        self.may_owe = False
        throttle_time_ms = self.meter.indebted()
        if throttle_time_ms:
            self.report_throttle(throttle_time_ms)
        return throttle_time_ms > 0

    def report_throttle(self, throttle_time_ms: int) -> None:
        """What was just charged is above the client's rate: the connection is to be muted between two frames."""
        self.throttle_time_ms = max(self.throttle_time_ms, throttle_time_ms)
        self._reported_ms = max(self._reported_ms, throttle_time_ms)
        pending_throttle = self.meter.pending_throttle()
        self._pending_throttle = (
            pending_throttle if self._pending_throttle is None else self._pending_throttle.join(pending_throttle)
        )

    def throttle(self, throttle_time_ms: int) -> None:
        """The same; the connection is muted now where no frame is in passage, be it that the client obeys or not."""
        self.report_throttle(throttle_time_ms)
        self._holder.throttled()

    @property
    def to_be_muted(self) -> bool:
        """Whether the client was told a throttle time for which it is not muted yet."""
        return self._pending_throttle is not None

    def mute(self) -> None:
        """Mutes for what was told, and until what is owed is earned (KIP-219)."""
        assert self._pending_throttle is not None
        reported_ms, pending_throttle = self._reported_ms, self._pending_throttle
        self._reported_ms, self._pending_throttle = 0, None
        self.on_throttle(reported_ms)
        self.mute_for(reported_ms, pending_throttle)

    def mute_for(self, throttle_time_ms: int, pending_throttle: PendingThrottle | None = None) -> None:
        """Mutes for a time that no quota told."""
        if self._mute is None:
            self._mute = Mute(self._clock.monotonic_ms, self._clock.call_later, self._unmuted)
        self._mute.throttle(throttle_time_ms, no_pending_throttle() if pending_throttle is None else pending_throttle)

    def _unmuted(self) -> None:
        self.throttle_time_ms = 0
        self._holder.unmuted()

    # -- time of the event loop (request_percentage, KIP-124) -----------------------------------------------------

    @property
    def untimed(self) -> bool:
        """Whether the time of work for this client is to be charged and is not counted yet."""
        return self.meter.request_limited and not self.timer.running

    def timed(self, work: Callable[[], _Made]) -> _Made:
        """Does the work and counts its time, which `charge` charges."""
        return self.timer.run(self.meter.work_ms, work)

    def charge(self) -> None:
        """Charges the time that was counted, once."""
        work_ms = self.timer.take_ms()
        if work_ms and (throttle_time_ms := self.meter.worked(work_ms)):
            self.throttle(throttle_time_ms)

    # -- the end --------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Gives back what the client held."""
        self.forget_expiry()
        self.share.end()
        self._answers.give_back(self._holder)
        if self._mute is not None:
            self._mute.cancel()
        self._holder = _ENDED  # no cycle: the connection is freed at once

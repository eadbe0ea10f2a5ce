"""A role's SASL, from its configuration."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from structlog.typing import FilteringBoundLogger

from tailrace.access.oauthbearer.server import TokenVerifier
from tailrace.clock import Clock
from tailrace.config import Config
from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Context
from tailrace.net.dispatch import Handler
from tailrace.net.sasl.authenticator import SaslAuthenticator
from tailrace.net.sasl.credentials import UserCredentials
from tailrace.net.sasl.settings import SaslSettings, sasl_settings
from tailrace.wire.apis import ApiKey
from tailrace.wire.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


class _Metrics(Collector):
    def __init__(self, registry: CollectorRegistry, authenticator: SaslAuthenticator) -> None:
        self._counts = authenticator.counts
        registry.register(self)

    def collect(self) -> list[Metric]:
        return self._counts.collect()

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead of time."""
        return []


class ClusterSecret(Protocol):
    """The secret that is the same on all hosts."""

    def derived(self, purpose: bytes) -> bytes:
        """Another secret, for another purpose."""


class SaslEnvironment(Protocol):
    """What SASL takes of the runtime's Environment."""

    @property
    def clock(self) -> Clock: ...
    @property
    def log(self) -> FilteringBoundLogger: ...
    @property
    def registry(self) -> CollectorRegistry: ...
    @property
    def secret(self) -> ClusterSecret | None: ...


def user_credentials(image: Callable[[], MetadataImage], secret: ClusterSecret | None) -> UserCredentials:
    """The users. Without the cluster's secret each process stands in by itself for those that do not exist."""
    return UserCredentials(image, derived_secret(secret, b"unknown users"))


def derived_secret(secret: ClusterSecret | None, purpose: bytes) -> Callable[[], bytes]:
    """A secret for a purpose, made at each use: the cluster's may change. Without that, a random one."""
    if secret is None:
        own = secrets.token_bytes()
        return lambda: own
    return lambda: secret.derived(purpose)


@contextmanager
def open_sasl(
    config: Config,
    environment: SaslEnvironment,
    image: Callable[[], MetadataImage],
    mechanisms: tuple[str, ...],
) -> Iterator[SaslAuthenticator]:
    """mechanisms: of all listeners of the role. Raises ConfigError."""
    settings = sasl_settings(config, mechanisms)
    clock, log = environment.clock, environment.log
    with _verifier(settings, clock, log) as verifier:
        credentials = user_credentials(image, environment.secret)
        authenticator = SaslAuthenticator(settings, credentials, clock, log, verifier=verifier)
        _Metrics(environment.registry, authenticator)
        try:
            yield authenticator
        finally:
            authenticator.close()


@contextmanager
def _verifier(settings: SaslSettings, clock: Clock, log: FilteringBoundLogger) -> Iterator[TokenVerifier | None]:
    if settings.oauthbearer is None:
        yield None
        return
    from tailrace.net.sasl.oauthbearer.opening import open_verifier  # the libraries for tokens are large

    with open_verifier(settings.oauthbearer, clock, log) as verifier:
        yield verifier


def sasl_handlers(authenticator: SaslAuthenticator) -> dict[int, Handler]:
    """What a listener of clients serves of SASL."""

    async def handshake(request: SaslHandshakeRequest, context: Context, role: object) -> SaslHandshakeResponse:
        return await authenticator.handshake(request, context.api_version, context.connection.session)

    async def authenticate(
        request: SaslAuthenticateRequest, context: Context, role: object
    ) -> SaslAuthenticateResponse:
        return await authenticator.authenticate(request, context.api_version, context.connection.session)

    return {ApiKey.SASL_HANDSHAKE: handshake, ApiKey.SASL_AUTHENTICATE: authenticate}

"""The authorizer that a role's config names, none by default."""

from __future__ import annotations

from typing import Final, Protocol

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from tailrace.access.authorizer import Authorizer
from tailrace.access.standard import super_users
from tailrace.clock import Clock
from tailrace.config import Config, ConfigError
from tailrace.net.authorization.denials import Denials
from tailrace.net.authorization.image_authorizer import FollowedMetadata, ImageAuthorizer

STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class AuthorizerEnvironment(Protocol):
    """What an authorizer takes of the runtime's Environment."""

    @property
    def clock(self) -> Clock: ...
    @property
    def log(self) -> FilteringBoundLogger: ...
    @property
    def registry(self) -> CollectorRegistry: ...


def open_authorizer(config: Config, source: FollowedMetadata, environment: AuthorizerEnvironment) -> Authorizer | None:
    """None: clients may do everything. Raises ConfigError for a class that is not known."""
    denials = Denials(environment.registry, environment.log, environment.clock.monotonic_ms)
    name = config.authorizer_class_name
    if not name:
        return None
    if name != STANDARD:
        raise ConfigError(f"authorizer.class.name={name} is not known; it may be {STANDARD}, or empty.")
    users = super_users(config.super_users)
    if wrong := next((user for user in users if ":" not in user), None):
        raise ConfigError(f"super.users names {wrong}, which has no type: write User:{wrong}, with ; between users.")
    return ImageAuthorizer(source, users, denials, allow_everyone=config.allow_everyone_if_no_acl_found)

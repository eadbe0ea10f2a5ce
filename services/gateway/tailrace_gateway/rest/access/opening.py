"""What the admin port asks of its clients, from the configuration."""

from __future__ import annotations

import secrets

from tailrace.config import Config
from tailrace.kafka.security_protocols import logs_in
from tailrace.net.limits.seldom import SeldomWarning
from tailrace.net.listeners.listener import admin_listener
from tailrace.net.sasl.opening import derived_secret, user_credentials
from tailrace.net.tls.handshakes import open_handshakes
from tailrace.printable import printable
from tailrace.runtime.role import Environment
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.rest.access.rest_access import FailedLogin, Login, RestAccess

_KEY_BYTES = 32
_NAME_CHARS = 128  # of a user's, as the log names it
_WHY_CHARS = 256


def open_access(config: Config, gateway: Gateway, environment: Environment) -> RestAccess:
    """By admin.security.protocol. Raises ConfigError."""
    port = admin_listener(config)
    return RestAccess(
        open_handshakes(port.tls, port.principal_rules, environment.clock, environment.log),
        _login(config, gateway, environment) if logs_in(port.security_protocol) else None,
        gateway.authorizer,
        environment.log,
    )


def _login(config: Config, gateway: Gateway, environment: Environment) -> Login:
    from tailrace_gateway.rest.access.passwords import Passwords
    from tailrace_gateway.rest.access.sessions import BrowserSessions

    users = user_credentials(lambda: gateway.image, environment.secret)
    failures = SeldomWarning(environment.log, environment.clock.monotonic_ms, "authentication failed")

    def failed(one: FailedLogin) -> None:
        user, why = printable(one.user[:_NAME_CHARS]), printable(one.why[:_WHY_CHARS])
        failures.say(client=one.client, mechanism=one.mechanism, user=user, why=why)

    key = secrets.token_bytes(_KEY_BYTES)
    sessions = BrowserSessions(users, derived_secret(environment.secret, b"console sessions"))
    delay_ms = config.connection_failed_authentication_delay_ms
    return Login(Passwords(users, key), sessions, delay_ms, failed, gateway.sasl.verifier)

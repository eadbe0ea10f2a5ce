"""A login as a client of Kafka: for the commands, which connect as any client would."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from tailrace.access.refused import AuthenticationRefused
from tailrace.access.sasl import BY_PASSWORD, PLAIN
from tailrace.access.scram import MECHANISMS
from tailrace.access.scram_client import ScramClient
from tailrace.config import ConfigError
from tailrace.errors import ErrorCode
from tailrace.kafka.security_protocols import logs_in
from tailrace.net.client import Ask
from tailrace.wire.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

_HANDSHAKE, _AUTHENTICATE = 1, 0  # versions
_NONCE_BYTES: Final = 24
_JAAS_VALUE: Final = re.compile(r"""(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))""")


@dataclass(frozen=True, slots=True)
class PasswordLogin:
    """A user with its password."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    async def run(self, ask: Ask) -> None:
        """Raises AuthenticationRefused with what the server says."""
        if self.mechanism == PLAIN:
            await _choose(ask, self.mechanism)
            await _token(ask, f"\0{self.username}\0{self.password}".encode())
            return
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        client = ScramClient(MECHANISMS[self.mechanism], self.username, self.password, nonce)
        await scram_login(ask, client, self.mechanism)


async def scram_login(ask: Ask, client: ScramClient, mechanism: str) -> None:
    """An exchange of SCRAM. Raises AuthenticationRefused with what the server says, or where it is the wrong one."""
    await _choose(ask, mechanism)
    challenge = await _token(ask, client.first())
    client.check(await _token(ask, client.final(challenge)))


async def _choose(ask: Ask, mechanism: str) -> None:
    answer = cast(SaslHandshakeResponse, await ask(SaslHandshakeRequest(mechanism=mechanism), _HANDSHAKE))
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationRefused(
            f"sasl.mechanism={mechanism} is not enabled there, but {', '.join(answer.mechanisms)}"
        )
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise AuthenticationRefused("no login is expected there: that listener is without SASL")
    if answer.error_code:
        raise AuthenticationRefused(f"the server refuses the handshake: error {answer.error_code}")


async def _token(ask: Ask, token: bytes) -> bytes:
    answer = cast(SaslAuthenticateResponse, await ask(SaslAuthenticateRequest(auth_bytes=token), _AUTHENTICATE))
    if answer.error_code:
        raise AuthenticationRefused(answer.error_message or f"error {answer.error_code}")
    return cast(bytes, answer.auth_bytes)


def login_of(given: Mapping[str, str]) -> PasswordLogin | None:
    """By the keys of Kafka's clients, or librdkafka's; None without SASL. Raises ConfigError without a secret."""
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if not logs_in(protocol):
        return None
    mechanism = given.get("sasl.mechanism") or given.get("sasl.mechanisms") or "GSSAPI"
    if mechanism not in BY_PASSWORD:
        raise ConfigError(f"sasl.mechanism={mechanism}: {', '.join(BY_PASSWORD)} are what a command can log in by.")
    of_jaas = {name: _unescaped(quoted) if quoted else bare for name, quoted, bare in _jaas(given)}
    username = given.get("sasl.username", of_jaas.get("username"))
    password = given.get("sasl.password", of_jaas.get("password"))
    if not username or not password:
        raise ConfigError(
            f"security.protocol={protocol} needs sasl.username and sasl.password, or sasl.jaas.config with both."
        )
    return PasswordLogin(mechanism, username, password)


def _jaas(given: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return _JAAS_VALUE.findall(given.get("sasl.jaas.config", ""))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)

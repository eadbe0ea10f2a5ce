"""The login of a command: keys of Java's clients and librdkafka's, and what a server may answer."""

from __future__ import annotations

from typing import Any

import pytest

from support.sasl import ALL, authenticator, user
from support.sessions import session_of
from tailrace.access.refused import AuthenticationRefused
from tailrace.access.scram import MECHANISMS, ScramMechanism
from tailrace.clock import ManualClock
from tailrace.config import ConfigError
from tailrace.net.sasl.login import PasswordLogin, login_of
from tailrace.net.sasl.settings import SaslSettings
from tailrace.wire.messages import SaslHandshakeRequest

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_without_sasl_there_is_no_login(protocol: str) -> None:
    assert login_of({"security.protocol": protocol, "sasl.mechanism": "PLAIN"}) is None


@pytest.mark.parametrize(
    ("keys", "username", "password"),
    [
        ({"sasl.username": "alice", "sasl.password": "s e"}, "alice", "s e"),
        ({"sasl.jaas.config": f'{MODULE} username="alice" password="a\\"b;c\\\\";'}, "alice", 'a"b;c\\'),
        ({"sasl.jaas.config": f"{MODULE} password=b username=alice;"}, "alice", "b"),
    ],
)
def test_the_user_stands_in_the_keys_of_either_kind_of_client(
    keys: dict[str, str], username: str, password: str
) -> None:
    found = login_of({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", **keys})
    assert found == PasswordLogin("SCRAM-SHA-512", username, password) and password not in repr(found)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({}, "sasl.mechanism=GSSAPI: PLAIN, SCRAM-SHA-256"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "alice"}, "needs sasl.username and sasl.password"),
    ],
)
def test_what_does_not_suffice_is_refused_with_a_sentence(keys: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        login_of({"security.protocol": "SASL_PLAINTEXT", **keys})


async def log_in(login: PasswordLogin, mechanisms: tuple[str, ...] = ALL) -> None:
    """At our own server, which has the user alice."""
    image = user("alice", "right", MECHANISMS.get(login.mechanism, ScramMechanism.SCRAM_SHA_256))
    sasl, session = authenticator(ManualClock(), SaslSettings(mechanisms, failed_delay_ms=0), image), session_of()
    sasl.begin(session)

    async def ask(request: Any, version: int) -> Any:
        if isinstance(request, SaslHandshakeRequest):
            return await sasl.handshake(request, version, session)
        return await sasl.authenticate(request, version, session)

    try:
        await login.run(ask)
    finally:
        sasl.close()
    assert session.identity.principal == f"User:{login.username}"


@pytest.mark.parametrize("mechanism", ALL)
async def test_each_mechanism_gets_in(mechanism: str) -> None:
    await log_in(PasswordLogin(mechanism, "alice", "right"))


@pytest.mark.parametrize("mechanism", ALL)
async def test_a_wrong_password_is_refused_in_the_servers_words(mechanism: str) -> None:
    with pytest.raises(AuthenticationRefused, match="Authentication failed"):
        await log_in(PasswordLogin(mechanism, "alice", "wrong"))


async def test_a_mechanism_or_a_login_that_is_not_wanted_is_named() -> None:
    with pytest.raises(AuthenticationRefused, match=r"sasl\.mechanism=PLAIN is not enabled there, but SCRAM-SHA-256"):
        await log_in(PasswordLogin("PLAIN", "alice", "right"), ("SCRAM-SHA-256",))
    with pytest.raises(AuthenticationRefused, match="no login is expected there"):
        await log_in(PasswordLogin("PLAIN", "alice", "right"), ())

"""SASL exchanges of the server, token by token, and what of them tells whether a user exists."""

from __future__ import annotations

import pytest
from kafka.net.sasl.scram import ScramClient

from support.sasl import ALL, plain_token, user
from tailrace.access import sasl
from tailrace.access.refused import AuthenticationRefused
from tailrace.access.sasl import PasswordCheck, PlainSaslServer, SaslServer, ScramSaslServer
from tailrace.access.scram import MECHANISMS, ScramMechanism
from tailrace.metadata.image import MetadataImage
from tailrace.net.sasl.credentials import UserCredentials


def server(mechanism: str, image: MetadataImage) -> SaslServer:
    return sasl.begin(mechanism, UserCredentials(lambda: image, lambda: b"secret"), "nonce")


@pytest.mark.parametrize("stored", list(ScramMechanism))
@pytest.mark.parametrize(("password", "right"), [("right", True), ("wrong", False)])
def test_plain_is_checked_against_whatever_credential_the_user_has(
    stored: ScramMechanism, password: str, right: bool
) -> None:
    running = server("PLAIN", user("alice", "right", stored))
    assert isinstance(running, PlainSaslServer)
    check = running.evaluate(plain_token("alice", password))
    assert isinstance(check, PasswordCheck) and check.found.mechanism is stored and check.run() is right
    assert not running.complete and password not in repr(check)
    if right:
        assert running.checked(right=True) == b"" and running.complete and running.username == "alice"
    else:
        with pytest.raises(AuthenticationRefused, match="Invalid username or password"):
            running.checked(right=False)


def test_a_user_that_does_not_exist_has_no_password_and_the_same_work() -> None:
    running = server("PLAIN", user("alice", "right"))
    assert isinstance(running, PlainSaslServer)
    check = running.evaluate(plain_token("bob", "right"))
    assert check.found.credential.iterations == 4096 and not check.run()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_scram_takes_two_tokens_and_no_third(mechanism: str) -> None:
    running = server(mechanism, user("alice", "right", MECHANISMS[mechanism]))
    assert isinstance(running, ScramSaslServer)
    client = ScramClient("alice", "right", mechanism)
    client.process_server_first_message(running.evaluate(client.first_message()))
    assert not running.complete
    client.process_server_final_message(running.evaluate(client.final_message()))
    assert running.complete and (running.username, running.mechanism) == ("alice", mechanism)
    with pytest.raises(AuthenticationRefused):
        running.evaluate(client.final_message())


def test_a_credential_of_one_mechanism_is_none_of_another() -> None:
    running = server("SCRAM-SHA-512", user("alice", "right"))
    client = ScramClient("alice", "right", "SCRAM-SHA-512")
    challenge = running.evaluate(client.first_message())
    assert isinstance(challenge, bytes)
    client.process_server_first_message(challenge)
    with pytest.raises(AuthenticationRefused, match="invalid credentials with SASL mechanism SCRAM-SHA-512"):
        running.evaluate(client.final_message())


def test_there_are_no_delegation_tokens() -> None:
    with pytest.raises(AuthenticationRefused):
        server("SCRAM-SHA-256", user("id", "right")).evaluate(b"n,,n=id,r=abc,tokenauth=true")


def test_what_is_served_can_begin() -> None:
    assert [server(mechanism, MetadataImage()).mechanism for mechanism in sasl.BY_PASSWORD] == list(ALL)

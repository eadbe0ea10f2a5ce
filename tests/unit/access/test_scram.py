"""SCRAM: the RFC's own exchange, two other implementations as clients, and what a server must refuse."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import pytest
import scramp
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.net.sasl.scram import ScramClient

from support.uncollected import uncollected
from tailrace.access import scram
from tailrace.access.refused import AuthenticationRefused
from tailrace.access.scram import MECHANISMS, ClientFirst, ScramCredential, ScramExchange, ScramMechanism
from tailrace.access.stand_in import Shape, stand_in

SECRET = b"of this cluster"
BOTH = pytest.mark.parametrize("mechanism", list(ScramMechanism), ids=lambda mechanism: mechanism.label)
NAMES = st.text(st.characters(codec="utf-8", min_codepoint=1), min_size=1, max_size=20)


def credential(
    mechanism: ScramMechanism, password: str, salt: bytes = b"salt", iterations: int = 4096
) -> ScramCredential:
    return scram.credential_of(mechanism, salt, scram.salted(mechanism, password, salt, iterations), iterations)


def exchange(
    mechanism: ScramMechanism, first: ClientFirst, found: ScramCredential | None, nonce: str = "server"
) -> ScramExchange:
    absent = stand_in(mechanism, first.username, SECRET, Shape(scram.DEFAULT_ITERATIONS, scram.SALT_BYTES))
    return ScramExchange(mechanism, first, found or absent, known=found is not None, nonce=nonce)


def test_the_exchange_of_rfc_7677() -> None:
    first = scram.parse_first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert (first.username, first.tokenauth) == ("user", False)
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    found = credential(ScramMechanism.SCRAM_SHA_256, "pencil", salt)
    running = exchange(ScramMechanism.SCRAM_SHA_256, first, found, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert running.challenge == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    proof = b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    answer = running.finish(b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0," + proof)
    assert answer == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@BOTH
@pytest.mark.parametrize("password", ["right", "wrong"])
def test_kafka_pythons_client_gets_in_with_the_right_password_alone(mechanism: ScramMechanism, password: str) -> None:
    client = ScramClient("alice", password, mechanism.label)
    first = scram.parse_first(client.first_message())
    running = exchange(mechanism, first, credential(mechanism, "right"))
    client.process_server_first_message(running.challenge)
    if password == "right":
        client.process_server_final_message(running.finish(client.final_message()))
    else:
        with pytest.raises(AuthenticationRefused, match="invalid credentials with SASL mechanism SCRAM-SHA-"):
            running.finish(client.final_message())


@settings(max_examples=25, deadline=None)
@given(NAMES, st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), min_size=1), st.booleans())
def test_scramps_client_gets_in_with_any_name(name: str, password: str, long: bool) -> None:
    mechanism = ScramMechanism.SCRAM_SHA_512 if long else ScramMechanism.SCRAM_SHA_256
    try:
        client = scramp.ScramClient([mechanism.label], name, password)
        message = client.get_client_first()
    except scramp.ScramException:  # a name that its preparation (RFC 4013) refuses
        return
    if message.startswith("n,,n=,"):  # a name of which the preparation leaves nothing
        return
    first = scram.parse_first(message.encode())
    running = exchange(mechanism, first, credential(mechanism, password))
    client.set_server_first(running.challenge.decode())
    client.set_server_final(running.finish(client.get_client_final().encode()).decode())


@BOTH
@given(st.binary(min_size=8, max_size=32), st.integers(4096, 4100))
@settings(max_examples=10, deadline=None)
def test_credentials_are_those_that_scramp_makes(mechanism: ScramMechanism, salt: bytes, iterations: int) -> None:
    made = scramp.ScramMechanism(mechanism.label).make_auth_info("secret", iterations, salt)
    found = credential(mechanism, "secret", salt, iterations)
    assert (found.salt, found.stored_key, found.server_key, found.iterations) == made


@BOTH
def test_an_unknown_user_sees_what_a_known_one_does_until_the_end(mechanism: ScramMechanism) -> None:
    client = ScramClient("nemo", "any", mechanism.label)
    first = scram.parse_first(client.first_message())
    running, again = exchange(mechanism, first, None), exchange(mechanism, first, None)
    known = exchange(mechanism, first, credential(mechanism, "other", b"s" * scram.SALT_BYTES))
    assert running.challenge == again.challenge
    assert len(running.challenge) == len(known.challenge)
    client.process_server_first_message(running.challenge)
    final = client.final_message()
    texts = []
    for one in (running, exchange(mechanism, first, credential(mechanism, "other", b"s" * scram.SALT_BYTES))):
        with pytest.raises(AuthenticationRefused) as refused:
            one.finish(final)
        texts.append(str(refused.value))
    assert texts[0] == texts[1]


def test_salts_of_unknown_users_differ_by_name_and_mechanism() -> None:
    challenges = {
        exchange(mechanism, scram.parse_first(f"n,,n={name},r=abc".encode()), None).challenge
        for mechanism in ScramMechanism
        for name in ("nemo", "nobody")
    }
    assert len(challenges) == 4


def calls(act: Callable[[], object]) -> list[str]:
    """The functions that run, in order, and those of C among them."""
    names: list[str] = []

    def seen(frame: FrameType, event: str, argument: object) -> None:
        names.append(argument.__qualname__ if event == "c_call" else f"{event} {frame.f_code.co_name}")  # type: ignore[attr-defined]

    with uncollected(), suppress(AuthenticationRefused):
        sys.setprofile(seen)
        try:
            act()
        finally:
            sys.setprofile(None)
    return names


@BOTH
def test_the_same_steps_are_taken_for_known_and_unknown_users(mechanism: ScramMechanism) -> None:
    first = scram.parse_first(b"n,,n=nemo,r=abc")
    message = b"c=biws,r=abcserver,p=" + base64.b64encode(b"p" * 64)
    known = ScramCredential(b"s" * 16, b"k" * 64, b"k" * 64, 4096)
    steps = calls(lambda: exchange(mechanism, first, known).finish(message))
    assert len(steps) > 20
    assert steps == calls(lambda: exchange(mechanism, first, None).finish(message))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=user,r=",
        b"n,,m=later,n=user,r=abc",
        b"n,a=other,n=user,r=abc",
        b"n,,n=user,r=ab c",
        b"n,,n=user\0,r=abc",
        b"n,,n=\xff,r=abc",
        b"n,,n=user,r=" + b"a" * scram.MAX_MESSAGE_BYTES,
    ],
)
def test_first_messages_that_are_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationRefused):
        scram.parse_first(message)


def test_what_a_first_message_says() -> None:
    first = scram.parse_first(b"n,a=a=2Cb=3Dc,n=a=2Cb=3Dc,r=abc,tokenauth=TRUE,later=x=y")
    assert (first.username, first.tokenauth, first.nonce) == ("a,b=c", True, "abc")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"c=biws,r=abcserver",
        b"c=biws,r=abcother,p=AAAA",
        b"c=biws,r=abc,p=AAAA",
        b"c=eSws,r=abcserver,p=AAAA",
        b"c=biws,r=abcserver,p=A",
        b"c=biws,r=abcserver,p=",
        b"c=biws,r=abcserver,p=" + base64.b64encode(b"\0" * 64),
    ],
)
def test_last_messages_that_are_refused(message: bytes) -> None:
    first = scram.parse_first(b"n,,n=user,r=abc")
    with pytest.raises(AuthenticationRefused):
        exchange(ScramMechanism.SCRAM_SHA_256, first, credential(ScramMechanism.SCRAM_SHA_256, "right")).finish(message)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(message: bytes) -> None:
    first = scram.parse_first(b"n,,n=user,r=abc")
    for act in (scram.parse_first, exchange(ScramMechanism.SCRAM_SHA_256, first, None).finish):
        try:
            act(message)
        except AuthenticationRefused:
            continue


@pytest.mark.parametrize("iterations", [0, 4095, 16385])
def test_iterations_have_limits(iterations: int) -> None:
    with pytest.raises(ValueError, match="between 4096 and 16384"):
        scram.credential_of(MECHANISMS["SCRAM-SHA-256"], b"salt", b"salted", iterations)


def test_secrets_are_not_shown() -> None:
    assert "stored" not in repr(credential(ScramMechanism.SCRAM_SHA_256, "right"))

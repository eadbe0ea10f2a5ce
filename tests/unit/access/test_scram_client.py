"""SCRAM as a client: the RFC's own exchange, our server, and servers that are none."""

from __future__ import annotations

import pytest
import scramp
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.access.refused import AuthenticationRefused
from tailrace.access.scram import MECHANISMS, ScramMechanism
from tailrace.access.scram_client import ScramClient

RFC = (ScramMechanism.SCRAM_SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def test_the_exchange_of_rfc_7677() -> None:
    client = ScramClient(*RFC)
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    proof = b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert client.final(CHALLENGE).endswith(proof)
    client.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(AuthenticationRefused, match="another signature"):
        client.check(b"v=AAAA")


@given(st.sampled_from(sorted(MECHANISMS)), st.text("abc=,é", min_size=1), st.text("xyz ,=", min_size=1))
@settings(max_examples=10, deadline=None)
def test_scramps_server_lets_it_in(mechanism: str, name: str, password: str) -> None:
    made = scramp.ScramMechanism(mechanism)
    stored = made.make_auth_info(password, iteration_count=4096)
    server = made.make_server(lambda username: stored)
    client = ScramClient(MECHANISMS[mechanism], name, password, "nonce")
    server.set_client_first(client.first().decode())
    server.set_client_final(client.final(server.get_server_first().encode()).decode())
    client.check(server.get_server_final().encode())


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff",
        b"r=other,s=c2FsdA==,i=4096",
        CHALLENGE[:-4] + b"99999999",
        CHALLENGE[:-4] + b"4095",
        CHALLENGE[:-4] + b"1",
        CHALLENGE.replace(b"==", b"=x"),
    ],
)
def test_a_challenge_of_another_server_is_refused(challenge: bytes) -> None:
    with pytest.raises(AuthenticationRefused, match="is not one of SCRAM"):
        ScramClient(*RFC).final(challenge)

"""OAUTHBEARER's exchange: what is a message, and what becomes of a token."""

from __future__ import annotations

import pytest

from tailrace.access.oauthbearer.server import INVALID_TOKEN, OAuthBearerSaslServer, VerifiedToken, parse_first
from tailrace.access.refused import AuthenticationRefused


class OneToken:
    """Takes `good`, which is alice's."""

    async def verify(self, token: str) -> VerifiedToken:
        if token != "good":
            raise AuthenticationRefused("a bad signature")
        return VerifiedToken("alice", 5_000)


@pytest.mark.parametrize(
    ("message", "authorization_id", "token"),
    [
        (b"n,,\x01auth=Bearer a.b-c_D\x01\x01", "", "a.b-c_D"),
        (b"n,a=alice,\x01auth=bearer  x\x01\x01", "alice", "x"),
        (b"n,,\x01traceId=123 4\x01auth=Bearer x\x01other=y\x01\x01", "", "x"),
    ],
)
def test_messages_of_clients(message: bytes, authorization_id: str, token: str) -> None:
    said = parse_first(message)
    assert (said.authorization_id, said.token) == (authorization_id, token)
    assert token not in repr(said)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"n,,auth=Bearer x\x01\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer x y\x01\x01",
        b"n,,\x01auth=Bearer \xc3\xa9\x01\x01",
        b"n,,\x01AUTH=Bearer x\x01\x01",
        b"n,a=b,c,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x\x01\x01more",
        b"\xff",
    ],
)
def test_what_is_no_message_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationRefused, match="Invalid OAUTHBEARER client first message"):
        parse_first(message)


async def test_a_good_token_is_its_subjects() -> None:
    server = OAuthBearerSaslServer(OneToken())
    assert await server.evaluate(b"n,a=alice,\x01auth=Bearer good\x01\x01") == b""
    assert (server.complete, server.username, server.expires_ms) == (True, "alice", 5_000)


async def test_a_bad_token_has_kafkas_answer_and_ends_with_the_next_message() -> None:
    server = OAuthBearerSaslServer(OneToken())
    assert await server.evaluate(b"n,,\x01auth=Bearer bad\x01\x01") == INVALID_TOKEN
    assert str(server.refused) == "a bad signature"
    for message in (b"\x01", b"n,,\x01auth=Bearer good\x01\x01"):
        with pytest.raises(AuthenticationRefused, match="invalid_token"):
            await server.evaluate(message)
    assert (server.complete, server.username) == (False, "")


async def test_another_authorization_id_is_refused() -> None:
    server = OAuthBearerSaslServer(OneToken())
    with pytest.raises(AuthenticationRefused, match="different from the token's principal name"):
        await server.evaluate(b"n,a=bob,\x01auth=Bearer good\x01\x01")
    assert not server.complete

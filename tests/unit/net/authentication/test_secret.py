"""The cluster's secret as the credentials of SCRAM, against servers that do not know it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tailrace.access.refused import AuthenticationRefused
from tailrace.access.scram import MIN_ITERATIONS
from tailrace.net.authentication.secret import MECHANISM, Secret
from tailrace.wire.messages import SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse

SECRET = Secret(b"a" * 32, service="broker-1")
SALT = SECRET.find(f"broker-1/{SECRET.ids[0]}", MECHANISM).credential.salt


async def login(salt: bytes, iterations: int) -> int:
    """How many tokens of the service's an impostor with that challenge gets; the salt is no secret."""
    tokens: list[str] = []

    async def ask(request: Any, version: int) -> Any:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(error_code=0, mechanisms=[MECHANISM.label])
        tokens.append(request.auth_bytes.decode())
        answer = b"v=" + base64.b64encode(bytes(32))
        if len(tokens) == 1:
            nonce = tokens[0].rpartition("r=")[2]
            answer = f"r={nonce}x,s={base64.b64encode(salt).decode()},i={iterations}".encode()
        return SaslAuthenticateResponse(error_code=0, auth_bytes=answer)

    with pytest.raises(AuthenticationRefused, match=r"internal\.secret\.file"):
        await SECRET.run(ask)
    assert "61" * 32 not in str(tokens)
    return len(tokens)


async def test_a_program_in_the_place_of_a_service_has_to_know_the_secret_too() -> None:
    assert await login(SALT, MIN_ITERATIONS) == 2


@pytest.mark.parametrize(("salt", "iterations"), [(b"salt", MIN_ITERATIONS), (SALT, 1_000_000)])
async def test_a_challenge_of_its_own_is_refused_before_any_work(salt: bytes, iterations: int) -> None:
    assert await login(salt, iterations) == 1


def test_services_of_one_secret_find_each_other_by_its_id() -> None:
    other = Secret(b"b" * 32, b"a" * 32)
    assert other.ids[1:] == SECRET.ids
    assert (
        other.find(f"any/{SECRET.ids[0]}", MECHANISM).credential == SECRET.find(f"x/{SECRET.ids[0]}", None).credential
    )
    with pytest.raises(AuthenticationRefused, match="another secret"):
        SECRET.find(f"broker-1/{other.ids[0]}", MECHANISM)


def test_it_is_shown_nowhere() -> None:
    credential = SECRET.find(f"x/{SECRET.ids[0]}", MECHANISM)
    for shown in (repr(SECRET), str(SECRET), repr(credential), str(SECRET.ids)):
        assert "aaaa" not in shown and "6161" not in shown

"""Tokens that are taken, and each way in which one is not."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import jwt
import pytest
import structlog

from support.tokens import AUDIENCE, ISSUER, Issuer
from tailrace.access.refused import AuthenticationRefused
from tailrace.clock import ManualClock
from tailrace.net.sasl.oauthbearer.jwt_verifier import Expected, JwtVerifier
from tailrace.net.sasl.oauthbearer.keys import Pauses, SigningKeys

EXPECTED = Expected(ISSUER, (AUDIENCE, "other"))


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer(one="ES256", two="RS256", three="EdDSA")


def verifier(issuer: Issuer, expected: Expected = EXPECTED) -> JwtVerifier:
    keys = SigningKeys(issuer.jwk_set, Pauses(1_000, 1_000, 1_000), ManualClock(), structlog.get_logger())
    return JwtVerifier(expected, keys)


async def why(checked: JwtVerifier, token: str) -> str:
    with pytest.raises(AuthenticationRefused) as refused:
        await checked.verify(token)
    return str(refused.value)


@pytest.mark.parametrize("kid", ["one", "two", "three"])
async def test_a_token_of_each_kind_of_key_is_its_subjects_until_its_end(issuer: Issuer, kid: str) -> None:
    end = int(time.time()) + 60
    verified = await verifier(issuer).verify(issuer.token("alice", kid, exp=end))
    assert verified == ("alice", end * 1000)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://other.example"}, "issuer"),
        ({"iss": None}, "iss"),
        ({"aud": "another cluster"}, "udience"),
        ({"aud": None}, "aud"),
        ({"exp": 1}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": "tomorrow"}, ""),
        ({"exp": float("inf")}, ""),
        ({"exp": float("nan")}, ""),
        ({"exp": []}, ""),
        ({"exp": "4000000000"}, "'exp' is no number"),
        ({"exp": True}, "exp"),
        ({"iat": "1"}, "'iat' is no number"),
        ({"iat": True}, "'iat' is no number"),
        ({"nbf": "1"}, "'nbf' is no number"),
        ({"nbf": {}}, ""),
        ({"iat": None}, "iat"),
        ({"iat": "today"}, ""),
        ({"iat": 4_000_000_000}, "iat"),
        ({"nbf": 4_000_000_000}, "nbf"),
        ({"subject": None}, "'sub'"),
        ({"subject": ""}, "'sub'"),
        ({"subject": 5}, "'sub'"),
        ({"subject": ["alice"]}, "'sub'"),
        ({"subject": "a" * 513}, "'sub'"),
        ({"subject": "alice\n"}, "'sub'"),
        ({"scope": 5}, "'scope'"),
        ({"scope": [5]}, "'scope'"),
    ],
)
async def test_a_token_that_says_something_else_is_refused(issuer: Issuer, claims: dict[str, Any], reason: str) -> None:
    assert reason in await why(verifier(issuer), issuer.token(**claims))


@pytest.mark.parametrize("claims", [{"aud": ["x", "other"]}, {"scope": "a b"}, {"scope": ["a"]}, {"subject": "ü@x"}])
async def test_what_is_taken_as_well(issuer: Issuer, claims: dict[str, Any]) -> None:
    assert (await verifier(issuer).verify(issuer.token(**claims))).name == claims.get("subject", "alice")


async def test_the_skew_of_clocks_is_forgiven(issuer: Issuer) -> None:
    late = issuer.token(exp=int(time.time()) - 60)
    assert (await verifier(issuer, Expected(ISSUER, (AUDIENCE,), clock_skew_s=3_600)).verify(late)).name == "alice"
    assert "expired" in await why(verifier(issuer, Expected(ISSUER, (AUDIENCE,), clock_skew_s=30)), late)


async def test_the_claims_of_the_name_and_the_scope_can_be_others(issuer: Issuer) -> None:
    expected = Expected(ISSUER, (AUDIENCE,), sub_claim="client_id", scope_claim="scp")
    token = issuer.token(None, client_id="service", scope=5, scp=["x"])
    assert (await verifier(issuer, expected).verify(token)).name == "service"


async def test_any_issuer_and_any_audience_where_that_is_said(issuer: Issuer) -> None:
    token = issuer.token(iss="https://other.example", aud="another cluster")
    assert (await verifier(issuer, Expected(None, ())).verify(token)).name == "alice"
    assert (await verifier(issuer, Expected(None, ())).verify(issuer.token(iss=None, aud=None))).name == "alice"


async def test_a_token_that_is_not_signed_by_a_known_key_is_refused(issuer: Issuer) -> None:
    checked = verifier(issuer)
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    assert "not signed" in await why(checked, jwt.encode(claims, "", "none", {"kid": "one"}))
    body = issuer.token().split(".")[1]
    for algorithm in ("none", "None", "NONE", "HS256", "RS256", "ES384", "", 5):
        head = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": "one"}).encode()).decode().rstrip("=")
        assert await why(checked, f"{head}.{body}.")
    stranger = Issuer(one="ES256", four="ES256")
    assert "ignature" in await why(checked, stranger.token())
    assert "'four'" in await why(checked, stranger.token(kid="four"))
    public = base64.b64encode(json.dumps(issuer.jwk("two")).encode())
    assert await why(checked, jwt.encode(claims, public * 2, "HS256", {"kid": "two"}))  # a public key is no secret


async def test_a_changed_token_is_refused(issuer: Issuer) -> None:
    head, body, signature = issuer.token().split(".")
    for token in (f"{head}.{body[:-2]}AA.{signature}", f"{head}.{body}.{signature[:-4]}AAAA", f"{head}.{body}."):
        assert await why(verifier(issuer), token)


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "x" * 10_000, "eyJ9.e30.", "." * 1000, "\u00e9.e30.x"])
async def test_what_is_no_token_is_refused(issuer: Issuer, token: str) -> None:
    assert await why(verifier(issuer), token)


@pytest.mark.parametrize("headers", [{"crit": ["exp"]}, {"kid": 5}, {"kid": ["one"]}])
async def test_headers_that_are_not_understood_are_refused(issuer: Issuer, headers: dict[str, object]) -> None:
    head = base64.urlsafe_b64encode(json.dumps({"alg": "ES256", "kid": "one", **headers}).encode()).decode().rstrip("=")
    assert await why(verifier(issuer), ".".join([head, *issuer.token().split(".")[1:]]))

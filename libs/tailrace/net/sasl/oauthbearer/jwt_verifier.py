"""Tokens of OAUTHBEARER: JWTs (RFC 7519) that one issuer has signed for this cluster, as Kafka's BrokerJwtValidator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt

from tailrace.access.oauthbearer.server import VerifiedToken
from tailrace.access.refused import AuthenticationRefused
from tailrace.net.sasl.oauthbearer.keys import SigningKeys

MAX_NAME_BYTES: Final = 512  # as in an ACL
_MAX_EXPIRY_S: Final = 253_402_300_799  # the end of the year 9999
_DATES: Final = ("exp", "iat", "nbf")
_MALFORMED: Final = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a token has to say; None: any issuer, no audiences: any."""

    issuer: str | None
    audiences: tuple[str, ...]
    sub_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_s: int = 30


class JwtVerifier:
    """Checks tokens by keys that are looked up by their id."""

    def __init__(self, expected: Expected, keys: SigningKeys) -> None:
        self._expected = expected
        self._keys = keys

    async def verify(self, token: str) -> VerifiedToken:
        """Raises AuthenticationRefused with the reason, for the log."""
        try:
            header = jwt.get_unverified_header(token)
        except _MALFORMED as wrong:
            raise AuthenticationRefused(f"no signed JWT: {wrong}") from None
        if "crit" in header:
            raise AuthenticationRefused("the token has critical extensions")
        if header.get("alg") in (None, "none"):
            raise AuthenticationRefused("the token is not signed")
        kid = header.get("kid")
        if not isinstance(kid, str | None):
            raise AuthenticationRefused("the key id of the token is no text")
        key = await self._keys.find(kid)
        if key is None:
            raise AuthenticationRefused(f"no key has the id {kid!r}")
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=key.algorithms,
                issuer=self._expected.issuer,
                audience=self._expected.audiences or None,
                leeway=self._expected.clock_skew_s,
                options={"require": ["exp", "iat"], "verify_aud": bool(self._expected.audiences), "verify_sub": False},
            )
        except _MALFORMED as wrong:
            raise AuthenticationRefused(str(wrong)) from None
        return self._verified(claims)

    def _verified(self, claims: Mapping[str, Any]) -> VerifiedToken:
        expected = self._expected
        name = claims.get(expected.sub_claim)
        if not isinstance(name, str) or not name.strip() or len(name.encode(errors="replace")) > MAX_NAME_BYTES:
            raise AuthenticationRefused(f"the claim {expected.sub_claim!r} is no name of 1 to {MAX_NAME_BYTES} bytes")
        if not name.isprintable():
            raise AuthenticationRefused(f"the claim {expected.sub_claim!r} has characters that cannot be shown")
        for claim in _DATES:
            date = claims.get(claim, 0)
            if isinstance(date, bool) or not isinstance(date, int | float):  # PyJWT takes a number in a text
                raise AuthenticationRefused(f"the claim {claim!r} is no number")
        scope = claims.get(expected.scope_claim, [])
        if not isinstance(scope, str | list) or not all(isinstance(one, str) for one in scope):
            raise AuthenticationRefused(f"the claim {expected.scope_claim!r} is no text and no list of texts")
        return VerifiedToken(name, int(min(claims["exp"], _MAX_EXPIRY_S) * 1000))

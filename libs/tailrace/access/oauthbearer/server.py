"""The server's side of OAUTHBEARER (RFC 7628, KIP-255): Kafka's OAuthBearerSaslServer.

One token; a bad one has an answer of its own, which the client acknowledges before it is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from tailrace.access.refused import AuthenticationRefused

OAUTHBEARER: Final = "OAUTHBEARER"
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
_NAME: Final = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
_PAIR: Final = r"[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01"
_FIRST: Final = re.compile(rf"n,(?:a=({_NAME}))?,\x01((?:{_PAIR})*)\x01")
_AUTH: Final = re.compile(r"(\w+) +([-_.a-zA-Z0-9]+)", re.ASCII)
_FORMAT: Final = "Invalid OAUTHBEARER client first message"


class VerifiedToken(NamedTuple):
    """What a token says; expires_ms is wall time."""

    name: str
    expires_ms: int


class TokenVerifier(Protocol):
    """What checks tokens: tailrace.net.sasl.oauthbearer."""

    async def verify(self, token: str) -> VerifiedToken:
        """Raises AuthenticationRefused."""


@dataclass(frozen=True, slots=True)
class ClientToken:
    """The message of a client; extensions (KIP-342) are read and mean nothing."""

    authorization_id: str
    token: str = field(repr=False)


def parse_first(message: bytes) -> ClientToken:
    """Raises AuthenticationRefused."""
    try:
        found = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise AuthenticationRefused(_FORMAT)
    authorization_id, pairs = found.groups()
    values = dict(pair.split("=", 1) for pair in pairs.split("\x01") if pair)
    if "auth" not in values:
        raise AuthenticationRefused(f"{_FORMAT}: 'auth' not specified")
    auth = _AUTH.fullmatch(values["auth"])
    if auth is None or auth[1].lower() != "bearer":
        raise AuthenticationRefused(f"{_FORMAT}: invalid 'auth' format")
    return ClientToken(authorization_id or "", auth[2])


class OAuthBearerSaslServer:
    """One exchange. The name is known when it is complete; `refused` says why a token is not taken."""

    mechanism: Final = OAUTHBEARER

    def __init__(self, verifier: TokenVerifier) -> None:
        self._verifier = verifier
        self.username = ""
        self.complete = False
        self.expires_ms = 0
        self.refused: AuthenticationRefused | None = None

    async def evaluate(self, message: bytes) -> bytes:
        """Nothing for a good token, INVALID_TOKEN for another one. Raises AuthenticationRefused."""
        if self.refused is not None:
            raise AuthenticationRefused(INVALID_TOKEN.decode()) from self.refused
        said = parse_first(message)
        try:
            verified = await self._verifier.verify(said.token)
        except AuthenticationRefused as why:
            self.refused = why
            return INVALID_TOKEN
        if said.authorization_id not in ("", verified.name):
            raise AuthenticationRefused(
                f"Authentication failed: Client requested an authorization id ({said.authorization_id}) that is "
                f"different from the token's principal name ({verified.name})"
            )
        self.username, self.expires_ms, self.complete = verified.name, verified.expires_ms, True
        return b""

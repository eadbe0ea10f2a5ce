"""The server's side of one SASL exchange, token by token (javax.security.sasl.SaslServer): PLAIN, SCRAM, OAUTHBEARER.

PLAIN is checked against the SCRAM credential of the user, which takes as long as PBKDF2: `evaluate` then returns the
check, for a thread to run.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias

from tailrace.access import plain
from tailrace.access.oauthbearer.server import OAUTHBEARER, OAuthBearerSaslServer, TokenVerifier
from tailrace.access.refused import AuthenticationRefused
from tailrace.access.scram import (
    MECHANISMS,
    REFUSED,
    ScramCredential,
    ScramExchange,
    ScramMechanism,
    credential_of,
    parse_first,
    salted,
)

PLAIN: Final = "PLAIN"
WRONG_PASSWORD: Final = "Authentication failed: Invalid username or password"  # of PLAIN
BY_PASSWORD: Final = (PLAIN, *MECHANISMS)
SERVED: Final = (*BY_PASSWORD, OAUTHBEARER)


class Found(NamedTuple):
    """A user's credential; where there is none, one that no password fits, which takes the same time."""

    mechanism: ScramMechanism
    credential: ScramCredential
    known: bool


class Credentials(Protocol):
    """The users of a cluster."""

    def find(self, username: str, mechanism: ScramMechanism | None) -> Found:
        """The user's credential of that mechanism; None: of any."""


@dataclass(frozen=True, slots=True)
class PasswordCheck:
    """Whether a password is that of a credential: some milliseconds of a processor."""

    password: str = field(repr=False)
    found: Found

    def run(self) -> bool:
        """Called in a thread."""
        mechanism, credential, known = self.found
        key = salted(mechanism, self.password, credential.salt, credential.iterations)
        made = credential_of(mechanism, credential.salt, key, credential.iterations)
        return hmac.compare_digest(made.stored_key, credential.stored_key) and known


class PlainSaslServer:
    """PLAIN: one token. It is complete when the password was checked; before, the user's name is what a client said."""

    mechanism: Final = PLAIN

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self.username = ""
        self.complete = False

    def evaluate(self, token: bytes) -> PasswordCheck:
        """The check of the password."""
        said = plain.parse(token)
        self.username = said.username
        return PasswordCheck(said.password, self._credentials.find(said.username, None))

    def checked(self, *, right: bool) -> bytes:
        """The answer after the check. Raises AuthenticationRefused."""
        if not right:
            raise AuthenticationRefused(WRONG_PASSWORD)
        self.complete = True
        return b""


class ScramSaslServer:
    """SCRAM: two tokens."""

    def __init__(self, mechanism: ScramMechanism, credentials: Credentials, nonce: str) -> None:
        self._scram = mechanism
        self.mechanism = mechanism.label
        self._credentials = credentials
        self._nonce = nonce
        self._exchange: ScramExchange | None = None
        self.username = ""
        self.complete = False

    def evaluate(self, token: bytes) -> bytes:
        """The challenge, then the server's signature. Raises AuthenticationRefused."""
        if self._exchange is None:
            first = parse_first(token)
            self.username = first.username
            if first.tokenauth:  # there are no delegation tokens
                raise AuthenticationRefused(REFUSED.format(self.mechanism))
            found = self._credentials.find(first.username, self._scram)
            self._exchange = ScramExchange(self._scram, first, found.credential, known=found.known, nonce=self._nonce)
            return self._exchange.challenge
        if self.complete:
            raise AuthenticationRefused("SCRAM message after the exchange")
        answer = self._exchange.finish(token)
        self.complete = True
        return answer


SaslServer: TypeAlias = PlainSaslServer | ScramSaslServer | OAuthBearerSaslServer


def begin(mechanism: str, credentials: Credentials, nonce: str, verifier: TokenVerifier | None = None) -> SaslServer:
    """A new exchange of one of SERVED; the nonce is a fresh one, and OAUTHBEARER needs a verifier."""
    if mechanism == OAUTHBEARER:
        assert verifier is not None
        return OAuthBearerSaslServer(verifier)
    if mechanism == PLAIN:
        return PlainSaslServer(credentials)
    return ScramSaslServer(MECHANISMS[mechanism], credentials, nonce)

"""The server's side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), with the extension `tokenauth` (KIP-48).

An exchange has two messages from the client. For a user that does not exist the server takes the same steps, with a
credential of tailrace.access.stand_in, and refuses at the end.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from tailrace.access.refused import AuthenticationRefused

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
DEFAULT_ITERATIONS: Final = 4096  # of kafka-configs.sh
MAX_MESSAGE_BYTES: Final = 4096
SALT_BYTES: Final = 16
REFUSED: Final = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"

_VALUE = r"[\x01-\x2B\x2D-\x7F\u0080-\U0010FFFF]"
_NAME = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F\u0080-\U0010FFFF]|=2C|=3D)"
_NONCE = r"[\x21-\x2B\x2D-\x7E]+"
_EXTENSIONS = rf"((?:,[A-Za-z]+={_VALUE}+)*)"
_FIRST = re.compile(rf"(n,(?:a=({_NAME}+))?,)(n=({_NAME}+),r=({_NONCE}){_EXTENSIONS})")
_BASE64 = r"[A-Za-z0-9/+]+={0,2}"
_FINAL = re.compile(rf"(c=({_BASE64}),r=({_NONCE}){_EXTENSIONS}),p=({_BASE64})")


class ScramMechanism(IntEnum):
    """Mechanisms, as AlterUserScramCredentials numbers them (ScramMechanism)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def label(self) -> str:
        """The name in SaslHandshake."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The name of the hash function in hashlib."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


MECHANISMS: Final[Mapping[str, ScramMechanism]] = MappingProxyType({found.label: found for found in ScramMechanism})


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a password: enough to check it, not enough to log in with."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The first message: the user, or the id of a delegation token if tokenauth; the rest is for the exchange."""

    username: str
    tokenauth: bool
    nonce: str
    header: str
    bare: str


def credential_of(mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
    """The credential of a salted password, as AlterUserScramCredentials carries it."""
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ValueError(f"iterations must be between {MIN_ITERATIONS} and {MAX_ITERATIONS}")
    client_key = _hmac(mechanism, salted_password, b"Client Key")
    stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
    return ScramCredential(salt, stored_key, _hmac(mechanism, salted_password, b"Server Key"), iterations)


def salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The salted password, which takes some milliseconds: a server does it when a password is set, not at a login."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def parse_first(message: bytes) -> ClientFirst:
    """The client's first message. It asks for no channel binding, and an authorization id is the user's name."""
    found = _FIRST.fullmatch(_text(message))
    if found is None:
        raise AuthenticationRefused("Invalid SCRAM client first message format")
    header, authorization_id, bare, name, nonce, extensions = found.groups()
    if authorization_id not in (None, name):
        raise AuthenticationRefused(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    values = dict(part.split("=", 1) for part in extensions.split(",") if part)
    return ClientFirst(_plain_name(name), values.get("tokenauth", "").lower() == "true", nonce, header, bare)


class ScramExchange:
    """The exchange after the first message: `challenge` is the answer to that one, `finish` takes the last one."""

    __slots__ = ("_credential", "_first", "_known", "_mechanism", "_nonce", "challenge")

    def __init__(
        self,
        mechanism: ScramMechanism,
        first: ClientFirst,
        credential: ScramCredential,
        *,
        known: bool = True,
        nonce: str,
    ) -> None:
        """Needs a fresh nonce for each exchange. known: else the credential stands for a user that does not exist."""
        self._mechanism = mechanism
        self._first = first
        self._known = known
        self._credential = credential
        self._nonce = first.nonce + nonce
        salt = base64.b64encode(self._credential.salt).decode()
        self.challenge = f"r={self._nonce},s={salt},i={self._credential.iterations}".encode()

    def finish(self, message: bytes) -> bytes:
        """The server's signature, if the client has the password."""
        found = _FINAL.fullmatch(_text(message))
        if found is None:
            raise AuthenticationRefused("Invalid SCRAM client final message format")
        without_proof, binding, nonce, _, proof = found.groups()
        if not hmac.compare_digest(nonce, self._nonce):
            raise AuthenticationRefused("Invalid client nonce in the final client message.")
        authorized = f"{self._first.bare},{self.challenge.decode()},{without_proof}".encode()
        signature = _hmac(self._mechanism, self._credential.stored_key, authorized)
        sent = _unbase64(proof)
        client_key = bytes(a ^ b for a, b in zip(sent, signature, strict=False))
        stored_key = hashlib.new(self._mechanism.hash_name, client_key).digest()
        right = hmac.compare_digest(stored_key, self._credential.stored_key) and len(sent) == len(signature)
        same_header = _unbase64(binding) == self._first.header.encode()
        if not (right and same_header and self._known):
            raise AuthenticationRefused(REFUSED.format(self._mechanism.label))
        return b"v=" + base64.b64encode(_hmac(self._mechanism, self._credential.server_key, authorized))


def _hmac(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.hash_name)


def _text(message: bytes) -> str:
    if len(message) > MAX_MESSAGE_BYTES:
        raise AuthenticationRefused("SCRAM message is too long")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise AuthenticationRefused("SCRAM message is not UTF-8") from None


def _plain_name(name: str) -> str:
    """A name with its commas and equals signs (=2C, =3D)."""
    return name.replace("=2C", ",").replace("=3D", "=")


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationRefused("Invalid SCRAM client final message format") from None

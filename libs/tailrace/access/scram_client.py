"""The client's side of SCRAM (RFC 5802): three messages, of which the last one of the server is checked, too."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final, TypeAlias

from tailrace.access.refused import AuthenticationRefused
from tailrace.access.scram import MIN_ITERATIONS, ScramMechanism, salted

MOST_ITERATIONS: Final = 1_000_000  # more would keep the client busy; fewer than MIN_ITERATIONS make guesses cheap
_CHALLENGE: Final = re.compile(r"r=([\x21-\x2B\x2D-\x7E]+),s=([A-Za-z0-9/+=]+),i=([1-9][0-9]{0,6})(?:,.*)?")
_HEADER: Final = "n,,"
# (mechanism, password, salt, iterations) -> the salted password. May raise AuthenticationRefused.
SaltPassword: TypeAlias = Callable[[ScramMechanism, str, bytes, int], bytes]


class ScramClient:
    """One exchange."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        username: str,
        password: str,
        nonce: str,
        salt_password: SaltPassword = salted,
    ) -> None:
        """Needs a fresh nonce for each exchange."""
        self._mechanism = mechanism
        self._salt_password = salt_password
        self._password = password
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """The first message."""
        return (_HEADER + self._bare).encode()

    def final(self, challenge: bytes) -> bytes:
        """The proof that this client has the password. Raises AuthenticationRefused for a challenge that is none."""
        found = _CHALLENGE.fullmatch(challenge.decode("utf-8", "replace"))
        if (
            found is None
            or not found[1].startswith(self._nonce)
            or not MIN_ITERATIONS <= int(found[3]) <= MOST_ITERATIONS
        ):
            raise AuthenticationRefused("the server's challenge is not one of SCRAM")
        key = self._salt_password(self._mechanism, self._password, _decoded(found[2]), int(found[3]))
        client_key = self._hmac(key, b"Client Key")
        binding = base64.b64encode(_HEADER.encode()).decode()
        without_proof = f"c={binding},r={found[1]}"
        authorized = f"{self._bare},{challenge.decode()},{without_proof}".encode()
        signature = self._hmac(hashlib.new(self._mechanism.hash_name, client_key).digest(), authorized)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = self._hmac(self._hmac(key, b"Server Key"), authorized)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, last: bytes) -> None:
        """Raises AuthenticationRefused for a server that does not know the user's keys."""
        if not hmac.compare_digest(last, b"v=" + base64.b64encode(self._signature)):
            raise AuthenticationRefused("the server does not know the user: it has another signature")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._mechanism.hash_name)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationRefused("the server's challenge is not one of SCRAM") from None

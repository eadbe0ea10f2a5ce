"""The cluster's secret, as the credentials with which services log in at each other over TCP (SCRAM-SHA-256).

The user's name is that of the service and the id of its secret, as in `broker-1/4a0f1c9e`: the first is for the log,
the second finds the credential while the secret is being changed and two are valid. Salt and iterations are made of the
secret as well, so both sides compute the salted password once, and not for each connection.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from tailrace.access.refused import AuthenticationRefused
from tailrace.access.sasl import Found
from tailrace.access.scram import MIN_ITERATIONS, SALT_BYTES, ScramCredential, ScramMechanism, credential_of, salted
from tailrace.access.scram_client import ScramClient
from tailrace.net.client import Ask
from tailrace.net.sasl.login import scram_login

MECHANISM: Final = ScramMechanism.SCRAM_SHA_256
_NONCE_BYTES: Final = 24
_ID_CHARS: Final = 8
_SEE: Final = "is it another secret? internal.secret.file must be the same for all services"


class _Key:
    """One secret that is valid."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self.id = self.derived(b"id").hex()[:_ID_CHARS]

    def derived(self, purpose: bytes) -> bytes:
        """Another secret, for another purpose; this one cannot be found from it."""
        return hmac.digest(self._text, b"derived for " + purpose, "sha256")

    @cached_property
    def salt(self) -> bytes:
        """The salt of this secret on all hosts."""
        return self.derived(b"salt")[:SALT_BYTES]

    @cached_property
    def salted_password(self) -> bytes:
        """Some milliseconds of a processor, once."""
        return salted(MECHANISM, self.password, self.salt, MIN_ITERATIONS)

    @cached_property
    def credential(self) -> ScramCredential:
        """That checks a login."""
        return credential_of(MECHANISM, self.salt, self.salted_password, MIN_ITERATIONS)

    @property
    def password(self) -> str:
        """The secret as SCRAM takes it."""
        return self._text.hex()

    def salted(self, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
        """The salted password, if the challenge is one of a service of this cluster."""
        if salt != self.salt or iterations != MIN_ITERATIONS:
            raise AuthenticationRefused("the challenge is not one of this cluster")
        return self.salted_password


class Secret:
    """What all services of a cluster know; it is shown nowhere."""

    def __init__(self, *texts: bytes, service: str = "service") -> None:
        """texts: the first one is what this service logs in with, and each lets others in."""
        self.service = service
        self._keys = tuple(map(_Key, texts))

    def replace(self, texts: Sequence[bytes]) -> bool:
        """Takes up other secrets for connections from now on; False: they are the same."""
        keys = tuple(map(_Key, texts))
        changed = [key.id for key in keys] != self.ids
        if changed:
            self._keys = keys
        return changed

    @property
    def ids(self) -> list[str]:
        """The ids of the secrets, which say nothing of them."""
        return [key.id for key in self._keys]

    def derived(self, purpose: bytes) -> bytes:
        """Another secret, for another purpose; this one cannot be found from it."""
        return self._keys[0].derived(purpose)

    def find(self, username: str, mechanism: ScramMechanism | None) -> Found:
        """The credential of a service, as that of a user is found elsewhere. Raises AuthenticationRefused."""
        key_id = username.rpartition("/")[2]
        for key in self._keys:
            if key.id == key_id:
                return Found(MECHANISM, key.credential, known=True)
        raise AuthenticationRefused("it knows another secret than this service")

    async def run(self, ask: Ask) -> None:
        """Logs in, and has the other side prove that it knows the secret, too. Raises AuthenticationRefused."""
        key = self._keys[0]
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        client = ScramClient(MECHANISM, f"{self.service}/{key.id}", key.password, nonce, key.salted)
        try:
            await scram_login(ask, client, MECHANISM.label)
        except AuthenticationRefused as refused:
            raise AuthenticationRefused(f"{refused} ({_SEE})") from None

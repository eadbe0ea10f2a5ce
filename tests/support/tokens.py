"""An issuer of tokens: its keys, the JWK set of them, and JWTs that it signs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tailrace.testing import Cluster

ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "kafka"
_ALGORITHMS: Final[dict[str, tuple[Any, Any]]] = {
    "RS256": (RSAAlgorithm, lambda: rsa.generate_private_key(65537, 2048)),
    "ES256": (ECAlgorithm, lambda: ec.generate_private_key(ec.SECP256R1())),
    "EdDSA": (OKPAlgorithm, ed25519.Ed25519PrivateKey.generate),
}


class Issuer:
    """One with a key of each id; the kind of a key is its algorithm."""

    def __init__(self, **algorithms: str) -> None:
        self.algorithms = algorithms or {"one": "ES256"}
        self.keys: dict[str, Any] = {kid: _ALGORITHMS[name][1]() for kid, name in self.algorithms.items()}

    def jwk(self, kid: str, **more: object) -> dict[str, Any]:
        """The public key."""
        kind: Any = _ALGORITHMS[self.algorithms[kid]][0]
        found: dict[str, Any] = kind.to_jwk(self.keys[kid].public_key(), as_dict=True)
        return {**found, "kid": kid, **more}

    def jwk_set(self) -> bytes:
        """All of them."""
        return json.dumps({"keys": [self.jwk(kid) for kid in self.keys]}).encode()

    def token(self, subject: object = "alice", kid: str = "one", **claims: object) -> str:
        """A token for some minutes; a claim that is None is left out."""
        now = int(time.time())
        said = {"sub": subject, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 300, **claims}
        said = {name: value for name, value in said.items() if value is not None}
        algorithm = self.algorithms[kid]
        signed: str = jwt.encode(said, self.keys[kid], algorithm, {"kid": kid})
        return signed


def first_message(token: str, authorization_id: str = "") -> bytes:
    """What a client says (RFC 7628)."""
    authorization = f"a={authorization_id}" if authorization_id else ""
    return f"n,{authorization},\x01auth=Bearer {token}\x01\x01".encode()


@contextmanager
def cluster_of(issuer: Issuer, folder: Path) -> Iterator[Cluster]:
    """A cluster whose clients log in with the issuer's tokens; the folder holds the public keys."""
    keys = folder / "keys.json"
    keys.write_bytes(issuer.jwk_set())
    settings = {
        "gateway.security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    with Cluster(settings=settings) as running:
        yield running

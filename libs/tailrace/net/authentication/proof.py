"""How two roles prove to each other that they know the cluster's secret, as bytes: no socket, no clock, no randomness.

The client begins with a hello (a magic and its nonce), the server answers with a nonce of its own and its proof, and
the client's proof ends it; the first frame may follow at once. A proof is an HMAC-SHA256 by the secret over both nonces
and the side that gives it, so that none can be said again on another connection, nor by the other side. The secret is
never sent. What comes after the proof is neither encrypted nor signed.
"""

from __future__ import annotations

import hmac

# The first four bytes would announce a frame beyond every limit: a role that awaits no proof closes at once.
MAGIC = b"TRPROOF\x01"
NONCE_BYTES = 32
PROOF_BYTES = 32
HELLO_BYTES = len(MAGIC) + NONCE_BYTES
ANSWER_BYTES = NONCE_BYTES + PROOF_BYTES
_CLIENT, _SERVER = b"client", b"server"


class NotProven(Exception):
    """The other side does not know the secret, or speaks of something else."""


class Secret:
    """What all roles of a cluster know; it is shown nowhere."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def proof(self, side: bytes, client_nonce: bytes, server_nonce: bytes) -> bytes:
        """What only one that knows the secret can say on this connection."""
        return hmac.digest(self._key, MAGIC + side + client_nonce + server_nonce, "sha256")

    def derived(self, purpose: bytes) -> bytes:
        """Another secret, for another purpose; this one cannot be found from it."""
        return hmac.digest(self._key, b"derived for " + purpose, "sha256")


class ServerProof:
    """The accepting side. Each connection needs a nonce that was never used before."""

    def __init__(self, secret: Secret, nonce: bytes) -> None:
        self._secret = secret
        self._nonce = nonce
        self._expected = b""
        self._received = b""
        self.proven = False

    def receive(self, data: bytes) -> bytes:
        """Returns what must be sent now. Raises NotProven at the first byte that cannot belong to a proof."""
        self._received += data
        out = b""
        if not self._expected:
            begun = self._received[: len(MAGIC)]
            if begun != MAGIC[: len(begun)]:
                raise NotProven("it came without a proof of the cluster's secret")
            if len(self._received) < HELLO_BYTES:
                return b""
            client_nonce = self._received[len(MAGIC) : HELLO_BYTES]
            self._received = self._received[HELLO_BYTES:]
            self._expected = self._secret.proof(_CLIENT, client_nonce, self._nonce)
            out = self._nonce + self._secret.proof(_SERVER, client_nonce, self._nonce)
        if len(self._received) >= PROOF_BYTES and not self.proven:
            proof, self._received = self._received[:PROOF_BYTES], self._received[PROOF_BYTES:]
            if not hmac.compare_digest(proof, self._expected):
                raise NotProven("its proof is wrong: it knows another secret, or none")
            self.proven = True
        return out

    @property
    def begun(self) -> bool:
        """Whether anything came at all."""
        return bool(self._received or self._expected)

    @property
    def rest(self) -> bytes:
        """What came behind the proof."""
        assert self.proven
        return self._received


class ClientProof:
    """The connecting side: send `hello`, then what `receive` returns once it is not empty."""

    def __init__(self, secret: Secret, nonce: bytes) -> None:
        self._secret = secret
        self._nonce = nonce
        self._received = b""

    @property
    def hello(self) -> bytes:
        """The first bytes of the connection."""
        return MAGIC + self._nonce

    def receive(self, data: bytes) -> bytes:
        """Returns this side's proof once the other side has given its own. Raises NotProven if that is wrong."""
        self._received += data
        if len(self._received) < ANSWER_BYTES:
            return b""
        server_nonce, proof = self._received[:NONCE_BYTES], self._received[NONCE_BYTES:]
        if not hmac.compare_digest(proof, self._secret.proof(_SERVER, self._nonce, server_nonce)):
            raise NotProven("it knows another secret than this role: internal.secret.file must be the same for all")
        return self._secret.proof(_CLIENT, self._nonce, server_nonce)

"""Users as rows of AlterUserScramCredentials v0 (KIP-554), for what asks a cluster for them.

Each mechanism has a request of its own: Kafka refuses a user that one request names twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tailrace.access.plain import MAX_BYTES
from tailrace.access.scram import SALT_BYTES, ScramMechanism, salted
from tailrace.wire.messages import AlterUserScramCredentialsRequest

_Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
_Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion


def invalid_password(password: str) -> str | None:
    """What is wrong with a password that PLAIN could not carry (RFC 4616)."""
    if password and "\0" not in password and len(password.encode()) <= MAX_BYTES:
        return None
    return f"a password has 1 to {MAX_BYTES} bytes, without NUL"


def upsertions(
    name: str,
    mechanisms: Iterable[ScramMechanism],
    iterations: int,
    password: str,
    random_bytes: Callable[[int], bytes],
) -> Iterator[AlterUserScramCredentialsRequest]:
    """Gives a user a password; each takes some milliseconds of PBKDF2."""
    for mechanism in mechanisms:
        salt = random_bytes(SALT_BYTES)
        key = salted(mechanism, password, salt, iterations)
        row = _Upsertion(name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=key)
        yield AlterUserScramCredentialsRequest(deletions=[], upsertions=[row])


def deletions(name: str, mechanisms: Iterable[int]) -> Iterator[AlterUserScramCredentialsRequest]:
    """Deletes credentials of a user; with the last one it is gone."""
    for mechanism in mechanisms:
        row = _Deletion(name=name, mechanism=mechanism)
        yield AlterUserScramCredentialsRequest(deletions=[row], upsertions=[])

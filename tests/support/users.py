"""Users as the metadata log has them."""

from __future__ import annotations

from typing import Final

from tailrace.access.scram import ScramMechanism, credential_of, salted
from tailrace.metadata.records import UserScramCredentialRecord

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT: Final = b"salt of 16 bytes"


def credential(user: str, password: str, mechanism: ScramMechanism = SHA_512) -> UserScramCredentialRecord:
    """What the log has of a user's password."""
    made = credential_of(mechanism, SALT, salted(mechanism, password, SALT, 4096), 4096)
    return UserScramCredentialRecord(user, mechanism, made.salt, made.stored_key, made.server_key, made.iterations)

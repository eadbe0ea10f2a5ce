"""PLAIN (RFC 4616): an authorization id, a user name and a password in one message, divided by NUL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tailrace.access.refused import AuthenticationRefused

MAX_BYTES: Final = 255  # of each of the three, by the RFC


@dataclass(frozen=True, slots=True)
class PlainMessage:
    """A user that says it has this password."""

    username: str
    password: str = field(repr=False)


def parse(message: bytes) -> PlainMessage:
    """The user and the password; the authorization id may only repeat the user's name, as in Kafka."""
    if len(message) > 3 * MAX_BYTES + 2:
        raise AuthenticationRefused("Invalid SASL/PLAIN response: too long")
    try:
        parts = message.decode().split("\0")
    except UnicodeDecodeError:
        raise AuthenticationRefused("Invalid SASL/PLAIN response: not UTF-8") from None
    if len(parts) != 3:
        raise AuthenticationRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    if any(len(part.encode()) > MAX_BYTES for part in parts):
        raise AuthenticationRefused("Invalid SASL/PLAIN response: too long")
    authorization_id, username, password = parts
    if not username:
        raise AuthenticationRefused("Authentication failed: username not specified")
    if not password:
        raise AuthenticationRefused("Authentication failed: password not specified")
    if authorization_id not in ("", username):
        raise AuthenticationRefused(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    return PlainMessage(username, password)

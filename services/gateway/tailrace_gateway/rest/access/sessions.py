"""Sessions of browsers: a token with a MAC, so that no gateway keeps anything and each one takes the others' tokens.

The key is made of the cluster's secret and of the user's credentials. So a session ends with each of them: when the
user gets another password, be it of one mechanism, or is deleted, and when the secret is another one.

A session that is not used ends after IDLE_SECONDS, each after MAX_SECONDS.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tailrace.access.plain import MAX_BYTES
from tailrace.access.scram import ScramCredential

IDLE_SECONDS: Final = 30 * 60
MAX_SECONDS: Final = 12 * 60 * 60
RENEWED_AFTER_SECONDS: Final = 60  # the token's time of use is as exact as that
_CLOCK_SECONDS: Final = 60  # by which the clocks of gateways may differ
_HASH: Final = "sha256"
_MAC_BYTES: Final = 32
ID_BYTES: Final = 16
_HEAD: Final = struct.Struct(f">QQ{ID_BYTES}s")  # began, used, the session's random id
_MAX_CHARS: Final = (_MAC_BYTES + _HEAD.size + MAX_BYTES) * 4 // 3 + 4


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser in which a user has logged in; seconds of wall time."""

    user: str
    began: int
    used: int
    session_id: bytes

    def is_over(self, now: int) -> bool:
        """Whether it has ended; a time ahead of this clock is of a gateway whose clock is wrong."""
        ahead = max(self.began, self.used) - now > _CLOCK_SECONDS
        return ahead or now - self.used >= IDLE_SECONDS or now - self.began >= MAX_SECONDS

    def is_due(self, now: int) -> bool:
        """Whether a token with a newer time of use is to be given."""
        return now - self.used >= RENEWED_AFTER_SECONDS


class SessionUsers(Protocol):
    """The part of tailrace.net.sasl.credentials.UserCredentials that sessions need."""

    def all_of(self, username: str) -> Sequence[ScramCredential]: ...


class BrowserSessions:
    """The sessions of a cluster; `secret` is the same at all of its gateways."""

    def __init__(self, credentials: SessionUsers, secret: Callable[[], bytes]) -> None:
        self._credentials = credentials
        self._secret = secret

    def token(self, session: BrowserSession) -> str | None:
        """The token of a session; None for a user that does not exist."""
        key = self._key(session.user)
        if key is None:
            return None
        body = _HEAD.pack(session.began, session.used, session.session_id) + session.user.encode()
        return base64.urlsafe_b64encode(hmac.digest(key, body, _HASH) + body).rstrip(b"=").decode()

    def find(self, token: str, now: int) -> BrowserSession | None:
        """The session of a token; None for one that is forged or over."""
        if len(token) > _MAX_CHARS:
            return None
        try:
            data = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True)
            mac, body = data[:_MAC_BYTES], data[_MAC_BYTES:]
            began, used, session_id = _HEAD.unpack_from(body)
            session = BrowserSession(body[_HEAD.size :].decode(), began, used, session_id)
        except (binascii.Error, ValueError, struct.error):
            return None
        key = self._key(session.user)
        if key is None or not hmac.compare_digest(hmac.digest(key, body, _HASH), mac) or session.is_over(now):
            return None
        return session

    def csrf_token(self, session: BrowserSession) -> str:
        """What a page says with each change, which no page of another origin can know."""
        key = self._key(session.user)
        assert key is not None
        mac = hmac.digest(key, b"csrf" + session.session_id, _HASH)
        return base64.urlsafe_b64encode(mac).rstrip(b"=").decode()

    def _key(self, user: str) -> bytes | None:
        found = self._credentials.all_of(user)
        return _derived(self._secret(), found) if found else None


def _derived(secret: bytes, credentials: Sequence[ScramCredential]) -> bytes:
    parts = [part for one in credentials for part in (one.salt, one.stored_key)]
    framed = b"".join(len(part).to_bytes(4) + part for part in parts)
    return hmac.digest(secret, b"console session" + framed, _HASH)

"""The keys that sign tokens: a JWK set, read again from time to time, but not as often as strangers ask for it.

It is read every `refresh_ms`, and for a key that is not known. After each time there is a pause, which begins small
after a failure and doubles with the next. Keys that were there count until another set comes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import jwt
from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.printable import printable

_RSA_BITS_MIN: Final = 2048
_SHOWN: Final = 200
_FAMILIES: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}


class SigningKey(NamedTuple):
    """A public key, and the algorithms of signatures by it."""

    key: Any  # of `cryptography`
    algorithms: tuple[str, ...]


Keys = Mapping[str | None, SigningKey]  # by kid


class Pauses(NamedTuple):
    """Milliseconds between two reads of a set."""

    refresh_ms: int
    first_ms: int
    most_ms: int


def parse(data: bytes) -> Keys:
    """The keys that sign by an algorithm that is taken; what is no such key is passed over. Raises ValueError."""
    document = json.loads(data)
    rows = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise ValueError("it is no JWK set: an object with the list `keys`")
    return {row.get("kid"): found for row in rows if isinstance(row, dict) and (found := _key(row)) is not None}


def _key(row: dict[str, Any]) -> SigningKey | None:
    family = _FAMILIES.get(str(row.get("kty")), ())
    algorithm = row.get("alg")
    algorithms = family if algorithm is None else tuple(one for one in family if one == algorithm)
    if not algorithms or row.get("use", "sig") != "sig" or not isinstance(row.get("kid"), str | None):
        return None
    try:
        key = jwt.PyJWK(row).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if row["kty"] == "RSA" and key.key_size < _RSA_BITS_MIN:
        return None
    return SigningKey(key, algorithms)


class SigningKeys:
    """The keys of one set."""

    def __init__(self, read: Callable[[], bytes], pauses: Pauses, clock: Clock, log: FilteringBoundLogger) -> None:
        self._read_set = read
        self._pauses = pauses
        self._clock = clock
        self._log = log
        self._keys: Keys = {}
        self._read_ms = float("-inf")  # when a set was read last
        self._next_ms = float("-inf")  # before that none is read again
        self._failures = 0
        self._reading: asyncio.Task[None] | None = None

    async def find(self, kid: str | None) -> SigningKey | None:
        """The key of that id; without an id the only key there is."""
        found = self._known(kid)
        if found is None or self._is_old():
            self._begin()
            if found is None and self._reading is not None:
                await asyncio.shield(self._reading)
                found = self._known(kid)
        return found

    def _known(self, kid: str | None) -> SigningKey | None:
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid) if kid is not None else None

    def _is_old(self) -> bool:
        return self._clock.monotonic_ms() - self._read_ms >= self._pauses.refresh_ms

    def _begin(self) -> None:
        """Reads the set, unless that is under way, or was so a moment ago."""
        if self._reading is None and self._clock.monotonic_ms() >= self._next_ms:
            self._reading = asyncio.create_task(self._read(), name="jwks")

    async def _read(self) -> None:
        try:
            keys = parse(await asyncio.to_thread(self._read_set))
        except (OSError, ValueError, RecursionError) as wrong:
            self._failures += 1
            self._log.warning("token keys not read", why=printable(str(wrong)[:_SHOWN]), keys=len(self._keys))
        else:
            self._keys, self._failures, self._read_ms = keys, 0, self._clock.monotonic_ms()
        finally:
            pauses = self._pauses
            pause_ms = min(pauses.most_ms, pauses.first_ms << min(self._failures - 1, 30)) if self._failures else None
            self._next_ms = self._clock.monotonic_ms() + (pauses.most_ms if pause_ms is None else pause_ms)
            self._reading = None

    def close(self) -> None:
        """Ends a read that is under way."""
        if self._reading is not None:
            self._reading.cancel()

"""Credentials that stand for users that do not exist, so that a challenge does not tell which names there are.

A challenge shows the iterations and the salt. Both are drawn by the name: from what the users of the cluster have, in
the same shares. The time of a check of PLAIN shows the hash function and the iterations, which are drawn with them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from tailrace.access.scram import DEFAULT_ITERATIONS, SALT_BYTES, ScramCredential, ScramMechanism

KAFKAS_SALT: Final = -1
_KAFKAS_SALT: Final = re.compile(rb"[1-9a-z][0-9a-z]{21,25}")  # ScramFormatter.secureRandomBytes: 130 bits in base 36
_KAFKAS_BITS: Final = 130
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_POINT_BYTES: Final = 8
_Value = TypeVar("_Value")


class Shape(NamedTuple):
    """What a challenge shows of a credential, but for random bits."""

    iterations: int
    salt_bytes: int  # KAFKAS_SALT: as Kafka's admin client makes it


Profile: TypeAlias = tuple[tuple[int, Shape], ...]  # of one user's credentials, by mechanism


def shape_of(iterations: int, salt: bytes) -> Shape:
    """The shape of a credential."""
    return Shape(iterations, KAFKAS_SALT if _KAFKAS_SALT.fullmatch(salt) else len(salt))


_DEFAULT: Final = Shape(DEFAULT_ITERATIONS, SALT_BYTES)


class StandIns:
    """The stand-ins of a cluster with these users; secret: of the cluster, the same in each process."""

    def __init__(self, secret: bytes, users: Iterable[Profile]) -> None:
        self._secret = secret
        profiles = Counter(users)
        shapes: dict[int, Counter[Shape]] = {int(mechanism): Counter() for mechanism in ScramMechanism}
        for profile, count in profiles.items():
            for mechanism, shape in profile:
                shapes[mechanism][shape] += count
        self._profiles = _Shares(profiles, ((int(ScramMechanism.SCRAM_SHA_256), _DEFAULT),))
        self._shapes = {mechanism: _Shares(counts, _DEFAULT) for mechanism, counts in shapes.items()}

    def find(self, username: str, mechanism: ScramMechanism | None) -> tuple[ScramMechanism, ScramCredential]:
        """The credential of that mechanism; None: of any. The same for a name while the users are the same."""
        points = hmac.digest(self._secret, f"shape {username}".encode(), "sha256")
        profile = dict(self._profiles.at(points[:_POINT_BYTES]))
        wanted = mechanism or ScramMechanism(min(profile))
        shape = profile.get(wanted) or self._shapes[wanted].at(points[_POINT_BYTES : 2 * _POINT_BYTES])
        return wanted, stand_in(wanted, username, self._secret, shape)


def stand_in(mechanism: ScramMechanism, username: str, secret: bytes, shape: Shape) -> ScramCredential:
    """One credential, which no password fits."""
    key = hmac.digest(secret, f"{mechanism.label} {username}".encode(), mechanism.hash_name)
    if shape.salt_bytes == KAFKAS_SALT:
        salt = _base_36(int.from_bytes(key, "big") % (1 << _KAFKAS_BITS))
    else:
        salt = hashlib.shake_256(key).digest(shape.salt_bytes)
    return ScramCredential(salt, key, key, shape.iterations)


class _Shares(Generic[_Value]):
    """Values, each for a part of all points that is as large as its count."""

    def __init__(self, counts: Counter[_Value], otherwise: _Value) -> None:
        self._values = sorted(counts, key=repr) or [otherwise]
        self._ends = list(accumulate(counts[value] for value in self._values)) if counts else [1]

    def at(self, point: bytes) -> _Value:
        index = int.from_bytes(point, "big") * self._ends[-1] >> 8 * len(point)
        return self._values[bisect_right(self._ends, index)]


def _base_36(number: int) -> bytes:
    digits = bytearray()
    while number:
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return bytes(reversed(digits))

"""A count, a size and a checksum that do not depend on order: what went in is compared with what came out."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

_MASK = (1 << 64) - 1


class Tally(NamedTuple):
    records: int = 0
    size_bytes: int = 0
    checksum: int = 0

    def plus(self, line: bytes) -> Tally:
        digest = int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "big")
        return Tally(self.records + 1, self.size_bytes + len(line), (self.checksum + digest) & _MASK)

    def merged(self, other: Tally) -> Tally:
        checksum = (self.checksum + other.checksum) & _MASK
        return Tally(self.records + other.records, self.size_bytes + other.size_bytes, checksum)

    @property
    def shown(self) -> str:
        return f"{self.records:,} lines, {self.size_bytes / 1e6:,.1f} MB, checksum {self.checksum:016x}"

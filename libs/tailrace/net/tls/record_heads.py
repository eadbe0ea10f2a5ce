"""Where the records of TLS begin in what comes, so that so many are decrypted at a time. Pure.

A record begins with its type, its version and its size (RFC 8446, section 5.1); TLS 1.2 has the same head.
"""

from __future__ import annotations

from typing import Final

HEAD_BYTES: Final = 5
_SIZE_AT = 3


class RecordHeads:
    """Follows one direction of a connection. What is no TLS has sizes too: OpenSSL refuses it."""

    def __init__(self) -> None:
        self._left = 0  # bytes of a record that has begun

    def cut(self, data: bytes | memoryview, records: int, most_bytes: int) -> tuple[int, int]:
        """(how many bytes to take, how many records begin in them): no record begins behind `most_bytes`.

        What is left begins with a record's head, which may not have come whole.
        """
        at, begun, size = self._left, 0, len(data)
        while begun < records and at < most_bytes and at + HEAD_BYTES <= size:
            at += HEAD_BYTES + int.from_bytes(data[at + _SIZE_AT : at + HEAD_BYTES], "big")
            begun += 1
        taken = min(at, size)
        self._left = at - taken
        return taken, begun

"""Several buffers out with one call, on any version of Python: asyncio's writelines of 3.12 and later has two faults.

It never asks its protocol to pause (CVE-2024-12254, until 3.12.8 and 3.13.1): a client that takes no answers would have
them all prepared. And it keeps an empty buffer at the end forever: the loop turns without a pause, and the connection
never closes; a Fetch without records ends with one. uvloop has neither, but no harm is done there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from tailrace.wire.pieces import Bytes

_NEVER_PAUSES: Final = (3, 12) <= sys.version_info < (3, 12, 9) or (3, 13) <= sys.version_info < (3, 13, 2)
_KEEPS_EMPTY: Final = sys.version_info >= (3, 12)


_JOINED_BYTES: Final = 64 * 1024  # a larger buffer is worth a call of its own, and takes long to copy


def in_few_buffers(buffers: Sequence[Bytes]) -> Iterator[Bytes]:
    """The same bytes in few buffers."""
    small: list[Bytes] = []
    for buffer in buffers:
        if len(buffer) > _JOINED_BYTES:
            yield b"".join(small)
            yield buffer
            small = []
        else:
            small.append(buffer)
    yield b"".join(small)


class Writer(Protocol):
    """A transport, as asyncio's and uvloop's are."""

    def write(self, data: Bytes, /) -> object: ...
    def writelines(self, buffers: Iterable[Bytes], /) -> object: ...


def write_all(
    transport: Writer,
    buffers: Sequence[Bytes],
    never_pauses: bool = _NEVER_PAUSES,
    keeps_empty: bool = _KEEPS_EMPTY,
) -> None:
    """Writes the buffers in their order; the protocol's pause_writing is called if too much is unsent then."""
    if never_pauses:
        for buffer in in_few_buffers(buffers):
            transport.write(buffer)
    elif keeps_empty:
        transport.writelines([buffer for buffer in buffers if len(buffer)])
    else:
        transport.writelines(buffers)

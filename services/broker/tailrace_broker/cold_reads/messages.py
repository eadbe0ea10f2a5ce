"""What a broker and its cold process say to each other: whole messages of a SOCK_SEQPACKET socket.

An order comes with the descriptor of a file, whose bytes it brings into the page cache, or into the memory that both
share; or with that of a client's socket as well, to which it sends them. What lies in the shared memory is sent without
the file.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple


class MessageKind(IntEnum):
    """What to do with the bytes of a file, or with those in the shared memory."""

    BRING = 0  # into the page cache
    READ = 1  # into the shared memory, past the page cache
    SEND = 2  # from the page cache what the socket takes at once
    SEND_HELD = 3  # the same from the shared memory; its parts follow


class Order(NamedTuple):
    """So many bytes from a position of the file, and their place in the shared memory."""

    number: int
    position: int
    length: int
    kind: MessageKind = MessageKind.BRING
    place: int = 0
    parts: tuple[tuple[int, int], ...] = ()  # (place, length), one after the other

    @property
    def descriptors(self) -> int:
        """How many come with it."""
        return 2 if self.kind == MessageKind.SEND else 1

    def pack(self) -> bytes:
        """The message."""
        head = _ORDER.pack(self.number, self.kind, self.position, self.length, self.place)
        return head + b"".join([_PART.pack(*part) for part in self.parts])

    @staticmethod
    def unpack(message: bytes) -> Order:
        """From such a message."""
        number, kind, position, length, place = _ORDER.unpack_from(message)
        parts = tuple(_PART.iter_unpack(message[_ORDER.size :]))
        return Order(number, position, length, MessageKind(kind), place, parts)


class OrderStatus(NamedTuple):
    """How the order of that number ended: an errno, or 0; how many bytes were read or sent, also before an error."""

    number: int
    error: int
    size: int = 0


MOST_AT_ONCE: Final = 4  # orders to bring something that are under way
THREADS: Final = MOST_AT_ONCE + 2  # so that none to send waits for a slow disk
MOST_DESCRIPTORS: Final = 2
MOST_PARTS: Final = 8
_ORDER: Final = Struct("=IBqqq")
_PART: Final = Struct("=qq")
ORDER_BYTES: Final = _ORDER.size + MOST_PARTS * _PART.size  # at most
STATUS: Final = Struct("=Iiq")
HELLO: Final = OrderStatus(0, 0)  # before all others: from now on orders are taken

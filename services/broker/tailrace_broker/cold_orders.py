"""What a broker and its cold process say to each other: whole messages of a SOCK_SEQPACKET socket.

An order brings so many bytes of a file into the page cache, the file whose descriptor comes with it; or, where that of
a client's socket comes behind it, it sends them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple


class Order(NamedTuple):
    """To bring so many bytes from a position, or to send of them what the socket takes at once."""

    number: int
    position: int
    length: int
    sends: bool = False

    @property
    def descriptors(self) -> int:
        """How many come with it."""
        return 2 if self.sends else 1


class Status(NamedTuple):
    """How the order of that number ended: an errno, or 0, and how many bytes were sent, also before an error."""

    number: int
    error: int
    sent: int = 0


MOST_AT_ONCE: Final = 4  # orders to bring something that are under way
THREADS: Final = MOST_AT_ONCE + 2  # so that none to send waits for a slow disk
MOST_DESCRIPTORS: Final = 2
ORDER: Final = Struct("=Iqq?")
STATUS: Final = Struct("=Iiq")
HELLO: Final = Status(0, 0)  # before all others: from now on orders are taken

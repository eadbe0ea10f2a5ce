"""What a broker and its cold process say to each other: whole messages of a SOCK_SEQPACKET socket."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple


class Order(NamedTuple):
    """To bring so many bytes from a position into the page cache, of the file whose descriptor comes with it."""

    number: int
    position: int
    length: int


class Status(NamedTuple):
    """How the order of that number ended: an errno, or 0."""

    number: int
    error: int


MOST_AT_ONCE: Final = 4  # orders under way; so many threads read
ORDER: Final = Struct("=Iqq")
STATUS: Final = Struct("=Ii")
HELLO: Final = Status(0, 0)  # before all others: from now on orders are taken

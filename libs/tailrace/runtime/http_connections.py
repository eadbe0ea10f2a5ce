"""How many HTTP connections a port keeps, in all and of one address. Whoever keeps a place without a request loses it.

A connection is idle while its client owes something: a request, the rest of one, or the reading of an answer. Where
there is no room the connection that has been idle longest is ended: of the newcomer's own address where that has all
it may have, else of any. A newcomer is refused only where every connection that could make room is being answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable


class HttpConnections:
    """The connections of one port. `end` of a connection that must make room is called once; it is forgotten then."""

    def __init__(self, most: int, most_of_one_address: int) -> None:
        self._most = most
        self._most_of_one_address = most_of_one_address
        self._addresses: dict[Hashable, str] = {}
        self._counts: Counter[str] = Counter()
        self._idle: dict[Hashable, Callable[[], None]] = {}  # the longest idle first

    def __len__(self) -> int:
        return len(self._addresses)

    def admit(self, connection: Hashable, address: str, end: Callable[[], None]) -> bool:
        """Says whether a new connection, idle at first, is kept; another one may have been ended for it."""
        if self._counts[address] >= self._most_of_one_address:
            if not self._end_longest_idle(address):
                return False
        elif len(self._addresses) >= self._most and not self._end_longest_idle(None):
            return False
        self._addresses[connection] = address
        self._counts[address] += 1
        self._idle[connection] = end
        return True

    def idle(self, connection: Hashable, end: Callable[[], None]) -> None:
        """The client owes something from now on."""
        if connection in self._addresses:
            self._idle.pop(connection, None)
            self._idle[connection] = end

    def answering(self, connection: Hashable) -> None:
        """The client has asked and waits for its answer."""
        self._idle.pop(connection, None)

    def remove(self, connection: Hashable) -> None:
        """The connection ended; one that is not known is ignored."""
        self._idle.pop(connection, None)
        address = self._addresses.pop(connection, None)
        if address is not None:
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]

    def _end_longest_idle(self, address: str | None) -> bool:
        for connection, end in self._idle.items():
            if address in (None, self._addresses[connection]):
                self.remove(connection)
                end()
                return True
        return False

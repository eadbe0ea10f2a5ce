"""A listening socket: bound, and accepted from in turns of the event loop."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Any, Final

from tailrace.clock import Clock

BACKLOG: Final = 1024
_ACCEPTS: Final = 64  # connections taken per wake-up, so that a storm of them does not starve the others
_REST_MS: Final = 200.0


def bind_tcp(family: int, address: Any, *, shared: bool = False) -> socket.socket:
    """Listens and does not block; of an IPv6 address on IPv6 alone. Raises OSError.

    shared: other processes may have the same address (SO_REUSEPORT).
    """
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


class Accepting:
    """Gives each client's socket, which does not block, with its address to `accepted`, until it is closed.

    failed: is told why nothing can be accepted for a while, as without file descriptors; clients wait in the backlog.
    """

    def __init__(
        self,
        listening: socket.socket,
        accepted: Callable[[socket.socket, Any], None],
        clock: Clock,
        failed: Callable[[str], None],
    ) -> None:
        self.listening = listening
        self._accepted = accepted
        self._clock = clock
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._look()

    def _look(self) -> None:
        if self.listening.fileno() >= 0:
            self._loop.add_reader(self.listening.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTS):
            try:
                sock, peer = self.listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # it would wake the loop again and again
                self._failed(os.strerror(error.errno or errno.EIO))
                self._loop.remove_reader(self.listening.fileno())
                self._clock.call_later(_REST_MS, self._look)
                return
            sock.setblocking(False)
            self._accepted(sock, peer)

    def close(self) -> None:
        """Listens no more."""
        self._loop.remove_reader(self.listening.fileno())
        self.listening.close()

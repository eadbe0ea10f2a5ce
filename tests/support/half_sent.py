"""Requests that begin and do not end: what they announce is large, and they are kept open by a little now and then."""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from support.abuse import JOIN_GROUP, PRODUCE, split_address
from support.raw import request_header
from tailrace.testing import Cluster

DRIBBLE_BYTES, DRIBBLE_SECONDS = 4096, 1.0


@dataclass(frozen=True)
class HalfSent:
    """So many requests of an API, each of so many bytes; the role is where their bytes are kept."""

    role: str
    key: int
    version: int
    size_bytes: int
    count: int

    def start(self) -> bytes:
        """Size, header, and what the gateway looks at before it passes a request on."""
        header = request_header(self.key, self.version, 1, "half", flexible=False)
        begun = struct.pack(">hhii", -1, 1, 1000, 1) if self.key == PRODUCE else struct.pack(">h", 1) + b"g"
        return struct.pack(">i", self.size_bytes) + header + begun


JOINS = HalfSent("gateway", JOIN_GROUP, 3, 16 << 20, 100)
PRODUCES = HalfSent("broker", PRODUCE, 7, 100_000_000, 15)


@contextmanager
def half_sent(cluster: Cluster, asked: HalfSent) -> Iterator[None]:
    """Half of each request was sent, or as much of it as is read; from then on a little every second."""
    address = split_address(cluster.bootstrap.partition(",")[0])
    with ExitStack() as stack:
        socks = []
        for _ in range(asked.count):
            sock = stack.enter_context(socket.create_connection(address))
            sock.sendall(asked.start())
            sock.setblocking(False)
            socks.append(sock)
        _send_while_read(dict.fromkeys(socks, asked.size_bytes // 2))
        over = threading.Event()
        dribbling = threading.Thread(target=_dribble, args=(socks, over))
        dribbling.start()
        try:
            yield
        finally:
            over.set()
            dribbling.join()


def _send_while_read(left: dict[socket.socket, int]) -> None:
    part = memoryview(bytes(1 << 20))
    while left:
        _, writable, _ = select.select([], list(left), [], 1)
        if not writable:
            return
        for sock in writable:
            try:
                left[sock] -= sock.send(part[: min(left[sock], len(part))])
            except OSError:
                left[sock] = 0
            if not left[sock]:
                del left[sock]


def _dribble(socks: list[socket.socket], over: threading.Event) -> None:
    while not over.wait(DRIBBLE_SECONDS):
        for sock in socks:
            with suppress(OSError):  # nothing of it is read, or it is closed
                sock.send(bytes(DRIBBLE_BYTES))

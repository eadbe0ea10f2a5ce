"""Several buffers leave, a client that takes nothing makes the server pause, and a connection closes, on any Python."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from support.waiting import HUNG_S
from tailrace.net.transport.writing import write_all


class Transport:
    """Remembers what it was given; as asyncio's of 3.13.1, only write asks to pause."""

    def __init__(self) -> None:
        self.unsent: list[bytes] = []
        self.asked = 0

    def write(self, data: Any) -> None:
        self.unsent.append(bytes(data))
        self.asked += 1

    def writelines(self, buffers: Any) -> None:
        self.unsent += map(bytes, buffers)


@pytest.mark.parametrize(
    ("never_pauses", "keeps_empty", "unsent"),
    [
        (False, False, [b"a", b"bc", b"d", b""]),
        (False, True, [b"a", b"bc", b"d"]),
        (True, True, [b"abcd"]),
    ],
)
def test_what_a_version_of_python_does_wrong_is_not_asked_of_it(
    never_pauses: bool, keeps_empty: bool, unsent: list[bytes]
) -> None:
    transport = Transport()
    write_all(transport, [b"a", memoryview(b"bc"), bytearray(b"d"), b""], never_pauses, keeps_empty)
    assert (transport.unsent, transport.asked) == (unsent, int(never_pauses))


async def test_a_connection_closes_behind_an_empty_buffer() -> None:
    """As behind the answer to a Fetch that found nothing."""
    lost = asyncio.get_running_loop().create_future()

    class Protocol(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            lost.set_result(exc)

    ours, theirs = socket.socketpair()
    with theirs:
        transport, _ = await asyncio.get_running_loop().create_connection(Protocol, sock=ours)
        write_all(transport, [b"head", b""])
        transport.close()
        async with asyncio.timeout(HUNG_S):
            assert await lost is None
        assert theirs.recv(9) == b"head"

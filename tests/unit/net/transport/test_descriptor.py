"""Sockets on their way between processes: nothing that comes stays open unseen."""

from __future__ import annotations

import array
import asyncio
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tailrace.net.transport import descriptor


class Over:
    """What `receive` needs of a transport."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def get_extra_info(self, name: str) -> Any:
        return self._sock


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    for sock in (ours, theirs):
        sock.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def client() -> Iterator[socket.socket]:
    with socket.socket() as sock:
        yield sock


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def send(over: socket.socket, data: bytes, *descriptors: int) -> None:
    over.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])


async def test_a_socket_comes_with_the_bytes_that_were_read(pair: Any, client: socket.socket) -> None:
    ours, theirs = pair
    receiving = asyncio.ensure_future(descriptor.receive(Over(ours), 1000))
    await asyncio.sleep(0)
    assert descriptor.send(theirs, client, b"unread") == b""
    sock, unread = await receiving
    with sock:
        assert (os.fstat(sock.fileno()).st_ino, unread) == (os.fstat(client.fileno()).st_ino, b"unread")


@pytest.mark.parametrize("kind", ["a file", "a Unix socket", "two sockets", "nothing"])
async def test_what_is_no_clients_socket_is_refused_and_closed(pair: Any, client: socket.socket, kind: str) -> None:
    ours, theirs = pair
    kinds = {"a Unix socket": [theirs.fileno()], "two sockets": [client.fileno()] * 2, "nothing": []}
    before = open_descriptors()
    if kind == "a file":
        null = os.open(os.devnull, os.O_RDONLY)
        send(theirs, b"\0\0\0\0", null)
        os.close(null)
    else:
        send(theirs, b"\0\0\0\0", *kinds[kind])
    with pytest.raises(ConnectionAbortedError, match="descriptors came"):
        await descriptor.receive(Over(ours), 1000)
    assert open_descriptors() == before

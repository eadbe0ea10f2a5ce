"""The connecting side on TCP: proves the cluster's secret, and has the other side prove it, before the first frame."""

from __future__ import annotations

import asyncio
import secrets
import socket
from typing import Any

from tailrace.net.address import Address
from tailrace.net.authentication.proof import ANSWER_BYTES, NONCE_BYTES, ClientProof, NotProven, Secret

_CLOSED = "closed the connection before it proved the cluster's secret: has it the same internal.secret.file?"


class _Proving(asyncio.BufferedProtocol):
    """Until both sides are proven; `done` says when, or how it failed."""

    def __init__(self, secret: Secret) -> None:
        self._proof = ClientProof(secret, secrets.token_bytes(NONCE_BYTES))
        self._buffer = bytearray(ANSWER_BYTES)
        self._left = ANSWER_BYTES
        self.refusal: asyncio.Future[str] = asyncio.get_running_loop().create_future()  # empty: the proof was taken

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self._proof.hello)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[: max(1, self._left)]

    def buffer_updated(self, nbytes: int) -> None:
        self._left -= nbytes
        try:
            out = self._proof.receive(bytes(self._buffer[:nbytes]))
        except NotProven as wrong:
            self._fail(str(wrong))
            return
        if out and not self.refusal.done():
            self._transport.write(out)
            self.refusal.set_result("")

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(_CLOSED)

    def _fail(self, why: str) -> None:
        if not self.refusal.done():
            self.refusal.set_result(why)


async def open_proven(address: Address, secret: Secret) -> Any:
    """A TCP transport on which frames may go now; its protocol is the caller's to set. Raises OSError."""
    loop = asyncio.get_running_loop()
    proving = _Proving(secret)
    transport, _ = await loop.create_connection(lambda: proving, address.host, address.port)
    try:
        if why := await proving.refusal:
            raise ConnectionRefusedError(why)
        if transport.is_closing():
            raise ConnectionResetError("closed the connection")
    except BaseException:
        transport.abort()
        raise
    return transport


async def prove(sock: socket.socket, secret: Secret) -> None:
    """The same on a connected socket that does not block. Raises OSError."""
    loop = asyncio.get_running_loop()
    proof = ClientProof(secret, secrets.token_bytes(NONCE_BYTES))
    await loop.sock_sendall(sock, proof.hello)
    out, left = b"", ANSWER_BYTES
    while not out:
        part = await loop.sock_recv(sock, left)
        if not part:
            raise ConnectionRefusedError(_CLOSED)
        left -= len(part)
        try:
            out = proof.receive(part)
        except NotProven as wrong:
            raise ConnectionRefusedError(str(wrong)) from None
    await loop.sock_sendall(sock, out)

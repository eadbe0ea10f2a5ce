"""The connecting side on a socket that is not asyncio's; `tailrace.net.client` logs in by itself."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from tailrace.access.refused import AuthenticationRefused
from tailrace.net.authentication.secret import Secret
from tailrace.wire import codec
from tailrace.wire.connection import SIZE, answer_size
from tailrace.wire.malformed import Malformed
from tailrace.wire.messages import ApiMessage

_ANSWER_BYTES_MAX: Final = 16_384


async def log_in(sock: socket.socket, secret: Secret) -> None:
    """Logs in on a connected socket that does not block. Raises OSError."""
    loop = asyncio.get_running_loop()

    async def receive(size: int) -> bytes:
        got = b""
        while len(got) < size:
            part = await loop.sock_recv(sock, size - len(got))
            if not part:
                raise ConnectionRefusedError("closed the connection before the login was over")
            got += part
        return got

    async def ask(message: ApiMessage, version: int) -> object:
        await loop.sock_sendall(sock, codec.encode_request(message, version, 0, secret.service))
        size = answer_size(await receive(SIZE.size), _ANSWER_BYTES_MAX)
        frame = await receive(size)
        key = message.API_KEY
        return codec.decode_response(key, version, codec.response_body(key, version, memoryview(frame)))

    try:
        await secret.run(ask)
    except (AuthenticationRefused, Malformed) as refused:
        raise ConnectionRefusedError(str(refused)) from None

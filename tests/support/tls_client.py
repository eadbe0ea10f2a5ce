"""A TLS client over a blocking socket whose every step the test makes: records, the end of either layer."""

from __future__ import annotations

import _ssl
import ctypes
import socket
import ssl
from pathlib import Path
from types import TracebackType
from typing import Self

from support.certificates import Pair

_TIMEOUT_S = 20
_UPDATE_REQUESTED = 1


def client_tls(authority: Path, client: Pair | None = None) -> ssl.SSLContext:
    """Trusts the authority, and shows the client's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority)
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    return context


class TlsClient:
    """Connected; `handshake` goes on from there."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, host: str = "127.0.0.1") -> None:
        sock.settimeout(_TIMEOUT_S)
        self.socket = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()

    def flush(self) -> None:
        if self._outgoing.pending:
            self.socket.sendall(self._outgoing.read())

    def _more(self) -> bool:
        self.flush()
        came = self.socket.recv(1 << 16)
        if came:
            self._incoming.write(came)
        else:
            self._incoming.write_eof()
        return bool(came)

    def handshake(self, *, flush: bool = True) -> Self:
        """Without flush the last of it leaves with what is sent next."""
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self._more()
            else:
                if flush:
                    self.flush()
                return self

    def send(self, data: bytes) -> None:
        """In records of 16 KiB at most."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.tls.write(rest) :]
        self.flush()

    def read(self, most: int = 1 << 20) -> bytes:
        """Some bytes; none at the end of either layer."""
        while True:
            try:
                return self.tls.read(most)
            except ssl.SSLWantReadError:
                self._more()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""

    def read_all(self) -> bytes:
        """Until the end."""
        parts = []
        while part := self.read():
            parts.append(part)
        return b"".join(parts)

    def change_keys(self, times: int) -> None:
        """Asks as often for other keys (TLS 1.3), which Python does not offer; takes no answer."""
        openssl = ctypes.CDLL(getattr(_ssl, "__file__", None))
        inner = vars(self.tls)["_sslobj"]
        # Behind what every object has and a reference to the socket: SSL *ssl.
        own = ctypes.c_void_p.from_address(id(inner) + object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p))
        for _ in range(times):
            assert openssl.SSL_key_update(own, _UPDATE_REQUESTED) == 1
            openssl.SSL_do_handshake(own)
        self.flush()

    def say_end(self) -> None:
        """The end of TLS; the socket stays open."""
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            self.flush()

"""A client's connection over TLS: what came may wait in memory, where no readiness of the socket tells of it."""

from __future__ import annotations

from tailrace.net.identity import Identity
from tailrace.net.tls.encrypted_socket import EncryptedSocket
from tailrace_gateway.clients.client import ClientLink
from tailrace_gateway.gateway import Gateway


class EncryptedClientLink(ClientLink):
    """Reads on in the loop's next turn while its socket has more, behind the handshake from the beginning."""

    def __init__(self, sock: EncryptedSocket, gateway: Gateway, identity: Identity) -> None:
        super().__init__(sock, gateway, identity)
        self._encrypted = sock
        self._reads_soon = False

    def _watch(self) -> None:
        super()._watch()
        self._read_more()

    def _readable(self) -> None:
        super()._readable()
        self._read_more()

    def _read_more(self) -> None:
        if self.events.on and self._encrypted.more and not self._reads_soon:
            self._reads_soon = True
            self.loop.call_soon(self._soon)

    def _soon(self) -> None:
        self._reads_soon = False
        if self.events.on and self._encrypted.more:
            self._readable()

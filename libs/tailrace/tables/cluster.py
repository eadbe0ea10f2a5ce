"""Connections of an ordinary client to the nodes of a cluster, of which it knows a bootstrap list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tailrace.net.address import Address
from tailrace.net.client import PLAINTEXT, Client, ClientSettings, Disconnected
from tailrace.wire.messages import ApiMessage

CLIENT_ID: Final = "tailrace-tables"
_TIMEOUT_MS: Final = 30_000


class BootstrapNodes:
    """The port of readers to a cluster (AskNode)."""

    def __init__(
        self, bootstrap: Sequence[Address], settings: ClientSettings = PLAINTEXT, client_id: str = CLIENT_ID
    ) -> None:
        self._bootstrap = bootstrap
        self._settings = settings
        self._client_id = client_id
        self._clients: dict[Address, Client] = {}

    async def __call__(self, message: ApiMessage, version: int, at: Address | None = None) -> object:
        """One request to one node, or to the first of the list that answers. Raises Disconnected or TimeoutError."""
        failed: Disconnected | TimeoutError | None = None
        for address in self._bootstrap if at is None else (at,):
            if address not in self._clients:
                self._clients[address] = Client(
                    address, self._client_id, tls=self._settings.tls, login=self._settings.login
                )
            try:
                return await self._clients[address].ask(message, timeout_ms=_TIMEOUT_MS, version=version)
            except (Disconnected, TimeoutError) as error:
                failed = error
        assert failed is not None
        raise failed

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

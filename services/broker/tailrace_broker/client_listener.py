"""The broker's own client listener (gateway.advertise=brokers): data APIs are served, everything else is relayed.

Each client connection has one upstream connection to a gateway, opened at its first such request, with a preamble that
says who the client is; the server runs one relayed request at a time, so answers keep their order.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.client import Client, Disconnected
from tailrace.net.endpoints import address_of
from tailrace.net.metadata_follower import MetadataFollower

# Longer than any group request waits (rebalance timeouts are capped by group.max.session.timeout.ms).
_RELAY_TIMEOUT_MS = 1_860_000


class GatewayRelay:
    """Upstream connections by client connection."""

    def __init__(self, follower: MetadataFollower, boot_id: str) -> None:
        self._follower = follower
        self._boot_id = boot_id
        self._clients: dict[Any, Client] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def ask(self, connection: Any, frame: bytes) -> bytes:
        """Relays one frame; Disconnected while there is no gateway."""
        client = self._clients.get(connection)
        if client is None:
            address = self._gateway(self._follower.image)
            client = self._clients[connection] = Client(address, "relay", connection.identity)
        return await client.ask_frame(frame, timeout_ms=_RELAY_TIMEOUT_MS)

    def forget(self, connection: Any) -> None:
        """The client went away: so does its upstream connection."""
        client = self._clients.pop(connection, None)
        if client is not None:
            task = asyncio.get_running_loop().create_task(client.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _gateway(self, image: MetadataImage) -> Address:
        for service in image.services_of("gateway"):
            address = address_of(service.endpoints, self._boot_id)
            if address is not None:
                return address
        raise Disconnected("no gateway is registered")

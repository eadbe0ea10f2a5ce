"""Clients at the broker itself (gateway.advertise=brokers, or handed over): what is not its to answer is relayed.

Each client connection has one upstream connection to a gateway, opened at its first such request, with a preamble that
says who the client is, or, where a gateway handed the client over, the one by which it came; the server runs one
relayed request at a time, so answers keep their order. When the gateway has gone the next request looks for another,
and waits a moment for it: a gateway that is started again is back within a second.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from operator import is_not
from typing import Protocol

from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.background import spawn
from tailrace.net.client import Client, Disconnected
from tailrace.net.limits.answer_memory import AnswerMemory
from tailrace.net.members.endpoints import address_of
from tailrace.net.metadata.follower import MetadataFollower
from tailrace.net.session import ClientSession
from tailrace.wire.connection import SIZE
from tailrace.wire.pieces import Piece

# Longer than any group request waits (rebalance timeouts are capped by group.max.session.timeout.ms).
_RELAY_TIMEOUT_MS = 1_860_000
_CONNECT_MS = 5000.0
_ABSENT_MS = 5000.0  # while no gateway lives; well below what clients wait for an answer
_KNOCK_MS = 250.0  # how often it is tried again meanwhile, without news of a gateway
_HANDED_OVER = Address("the gateway that handed the client over", -1)


class Asking(Protocol):
    """A client's connection, as its relay sees it."""

    @property
    def session(self) -> ClientSession: ...

    def give_way(self, why: str) -> None: ...


class GatewayRelay:
    """Upstream connections by client connection."""

    def __init__(self, follower: MetadataFollower, boot_id: str, answers: AnswerMemory) -> None:
        self._follower = follower
        self._answers = answers
        self._boot_id = boot_id
        self._clients: dict[Asking, Client] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def ask(self, connection: Asking, frame: memoryview) -> list[Piece]:
        """Relays one frame; Disconnected where no gateway is to be reached for some seconds."""
        client = self._clients.get(connection)
        if client is None or not client.connected:
            client = self._clients[connection] = await self._found(connection)
        answer = await client.ask_frame(frame, timeout_ms=_RELAY_TIMEOUT_MS)
        return [SIZE.pack(len(answer)), answer]

    async def _found(self, connection: Asking) -> Client:
        """A new connection to a gateway, if need be to one that has yet to come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ABSENT_MS / 1000):
                while True:
                    image = self._follower.applied
                    with contextlib.suppress(Disconnected):
                        return await self._connected(connection)
                    with contextlib.suppress(TimeoutError):
                        await self._follower.wait_for(partial(is_not, image), _KNOCK_MS)
        raise Disconnected(f"no gateway could be reached within {_ABSENT_MS:.0f} ms")

    async def _connected(self, connection: Asking) -> Client:
        """A new connection to the first gateway that lives."""
        for address in self._gateways(self._follower.image):
            client = self._client(address, connection)
            with contextlib.suppress(Disconnected, TimeoutError):
                await client.connect(_CONNECT_MS)
                return client
        raise Disconnected("no gateway can be reached")

    def adopt(self, connection: Asking, transport: object) -> None:
        """The connection by which a gateway handed this client over."""
        client = self._clients[connection] = self._client(_HANDED_OVER, connection)
        client.take_over(transport)

    def _client(self, address: Address, connection: Asking) -> Client:
        return Client(address, "relay", connection.session.identity, room=partial(self._room, connection))

    async def _room(self, connection: Asking, size_bytes: int) -> None:
        """The client's connection gives it back when the answer was taken, or at its end."""
        await self._answers.room(connection, size_bytes)
        if connection not in self._clients:  # its end came first
            self._answers.give_back(connection)

    def ended(self, connection: Asking) -> None:
        """The client sends no more: the gateway decides whether it still wants the answer that it waits for."""
        if (client := self._clients.get(connection)) is not None:
            client.finish()

    def forget(self, connection: Asking) -> None:
        """The client went away: so does its upstream connection."""
        client = self._clients.pop(connection, None)
        if client is not None:
            spawn(client.close(), self._closing)

    def _gateways(self, image: MetadataImage) -> list[Address]:
        found = (address_of(service.endpoints, self._boot_id) for service in image.services_of("gateway"))
        return [address for address in found if address is not None]

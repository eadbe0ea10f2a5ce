"""The zero-hop data path: an accepted socket goes to its node's broker, if that is on this host.

Asked for at a connection's first data request, when nothing is in flight and nothing is unsent. The broker answers data
APIs itself from then on; what is not its to answer comes back over the Unix connection by which the socket went, which
takes the socket's place here: exchanges, the place in max.connections and the identity stay. Quotas are charged by the
broker from then on.
"""

from __future__ import annotations

import asyncio
import socket

from tailrace.net.address import Address
from tailrace.net.members.endpoints import address_of
from tailrace.net.transport import descriptor
from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.messages import AdoptConnectionRequest
from tailrace_gateway.clients.client import ClientLink
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay.node import CLIENT_ID, Exchange


class Handover:
    """What one gateway has handed over; `wanted` is gateway.handover."""

    def __init__(self, gateway: Gateway, *, wanted: bool) -> None:
        self._gateway = gateway
        self._wanted = wanted
        self.count = 0

    async def offer(self, connection: ClientLink) -> bool:
        """Whether the connection is the broker's now; else it is as it was, and is to be relayed."""
        address = self._address(connection)
        if address is None:
            return False
        try:
            exchange = await Exchange.open(address, connection.session.identity, self._gateway.limits.connect_ms, None)
        except OSError:
            return False  # the relay will meet the same, and knows what to do about it
        if not await self._welcome(exchange, connection) or not connection.may_be_handed_over:
            exchange.close()
            return False
        sock = exchange.detach()
        try:
            assert isinstance(connection.sock, socket.socket)  # it may be handed over
            rest = descriptor.send(sock, connection.sock, connection.tail)
        except OSError:
            sock.close()
            return False
        connection.hand_over(sock, rest)
        self.count += 1
        return True

    def _address(self, connection: ClientLink) -> Address | None:
        """The Unix socket of the connection's broker, if the connection may go there."""
        if not self._wanted or not connection.may_be_handed_over:
            return None
        broker = self._gateway.image.brokers.get(connection.node_id)
        if broker is None or broker.fenced:
            return None
        address = address_of(broker.endpoints, self._gateway.boot_id)
        return address if address is not None and address.is_unix else None

    async def _welcome(self, exchange: Exchange, connection: ClientLink) -> bool:
        """Whether the broker waits for the socket."""
        client_id = connection.session.client_id.decode("utf-8", "replace")
        request = codec.encode_request(AdoptConnectionRequest(client_id=client_id), 0, 0, CLIENT_ID)
        try:
            async with asyncio.timeout(self._gateway.limits.connect_ms / 1000):
                answer = await exchange.ask(request)
            body = codec.response_body(ApiKey.ADOPT_CONNECTION, 0, memoryview(answer)[4:])
            return not codec.decode_response(ApiKey.ADOPT_CONNECTION, 0, body).error_code
        except (OSError, codec.Malformed):
            return False

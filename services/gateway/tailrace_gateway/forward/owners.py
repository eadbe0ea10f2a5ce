"""The owners of shards: waited for while a shard is between two of them, and asked for a part of an answer."""

from __future__ import annotations

from typing import Any

from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.net.members.shards import owner_address
from tailrace_gateway.clients.client import ClientLink
from tailrace_gateway.forward.controller import NotSentError, UnansweredError, exchange
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay.node import CLIENT_ID
from tailrace_gateway.relay.requests import Frame

# Every client since 2016 takes NOT_COORDINATOR as "find the coordinator again", for every group and transaction API.
AWAY = ErrorCode.NOT_COORDINATOR


async def owner(gateway: Gateway, topic: str, shard: int) -> Address | None:
    """The owner's address; a shard between two owners is waited for a moment."""
    address = owner_address(gateway.image, topic, shard, gateway.boot_id)
    if address is None and shard >= 0:
        try:
            await gateway.follower.wait_for(
                lambda image: owner_address(image, topic, shard, gateway.boot_id) is not None,
                gateway.limits.coordinator_wait_ms,
            )
        except TimeoutError:
            return None
        address = owner_address(gateway.image, topic, shard, gateway.boot_id)
    return address


async def ask(gateway: Gateway, connection: ClientLink, frame: Frame, address: Address | None, request: Any) -> Any:
    """One owner's part of the answer, refused if it cannot be had."""
    large = gateway.large
    if address is not None:
        try:
            data = await large.encode_request(request, frame.version, frame.correlation_id, CLIENT_ID)
            answer = await exchange(connection, address, data, gateway.limits.connect_ms)
            return await large.decode_response(frame.key, frame.version, answer)
        except (NotSentError, UnansweredError):
            pass
    return await large.refuse(request, frame.key, frame.version, AWAY)

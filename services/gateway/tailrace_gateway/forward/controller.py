"""Control APIs: the original frame to the active controller, as Apache Kafka's brokers forward it (KIP-590).

The controller answers once the write is committed; the answer goes on when this gateway's image has come so far, too.
So Metadata that is asked for next has the new topics, partitions, leaders and configs: a client reads its writes.

A controller that is away is waited for; after that, and when it went away without answering, the client is told
REQUEST_TIMED_OUT, which says that the outcome is unknown.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.net.backoff import Backoff
from tailrace.net.metadata.follower import is_not_controller
from tailrace.wire.apis import ApiKey
from tailrace.wire.header import parse_request_header
from tailrace_gateway.clients.client import ClientLink
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay.node import Exchange
from tailrace_gateway.relay.requests import Frame

# Asking again does no harm.
READ_ONLY = frozenset(
    {
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
    }
)


class NotSentError(ConnectionError):
    """The service could not be reached: it has not seen the request."""


class UnansweredError(ConnectionError):
    """The service went away after it was asked; whether it acted is unknown."""


def request_of(gateway: Gateway, frame: Frame) -> AbstractAsyncContextManager[Any]:
    """The request of a collected frame, for as long as the block runs; raises Malformed."""
    return gateway.large.request(frame.key, frame.version, body_of(frame))


def body_of(frame: Frame) -> memoryview:
    """What of a frame is behind its header."""
    data = memoryview(frame.data)[4:]
    return data[parse_request_header(data).body_offset :]


async def refusal(gateway: Gateway, frame: Frame, code: ErrorCode, message: str | None = None) -> bytes | memoryview:
    """The answer frame that refuses the whole request."""
    async with request_of(gateway, frame) as request:
        response = await gateway.large.refuse(request, frame.key, frame.version, code, message)
        return await gateway.large.encode(response, frame.version, frame.correlation_id)


async def exchange(
    connection: ClientLink, address: Address, data: bytes | memoryview, connect_ms: float
) -> bytes | memoryview:
    """Asks a service over this client's own connection to it; raises NotSentError or UnansweredError."""
    known = connection.exchanges.get(address)
    if known is None or not known.alive():
        if known is not None:
            known.close()
        try:
            known = await Exchange.open(address, connection.session.identity, connect_ms, connection.gateway.secret)
        except OSError as refused:
            connection.exchanges.pop(address, None)
            raise NotSentError(f"{address}: {refused}") from refused
        connection.exchanges[address] = known
        if connection.closed:
            known.close()
    try:
        return await known.ask(data, connection.room_for_answer)
    except OSError as lost:
        connection.exchanges.pop(address, None)
        raise UnansweredError(f"{address}: {lost}") from lost


async def deposed(connection: ClientLink, frame: Frame, answer: bytes | memoryview) -> bool:
    """Whether a controller that is not active any more refused the request: another one will take it.

    Mutes the client where the controller throttled it (KIP-599).
    """
    async with connection.gateway.large.response(frame.key, frame.version, answer) as response:
        if throttle_time_ms := getattr(response, "throttle_time_ms", 0):
            connection.session.throttle(throttle_time_ms)
        return is_not_controller(response)


async def to_controller(gateway: Gateway, connection: ClientLink, frame: Frame) -> bytes | memoryview:
    """Relays to the active controller and waits for one if there is none.

    A body that cannot be decoded raises Malformed here: the controller would close, which looks like its death.
    """
    await gateway.large.check(frame.key, frame.version, body_of(frame))
    return await checked_to_controller(gateway, connection, frame)


async def checked_to_controller(gateway: Gateway, connection: ClientLink, frame: Frame) -> bytes | memoryview:
    """The same, of a request that is known to be decodable."""
    until_ms = gateway.clock.monotonic_ms() + gateway.limits.controller_wait_ms
    backoff = Backoff(gateway.clock, gateway.random)
    while True:
        address = gateway.follower.controller
        if address is not None:
            try:
                answer = await exchange(connection, address, frame.data, gateway.limits.connect_ms)
                if not await deposed(connection, frame, answer):
                    if frame.key not in READ_ONLY:
                        await gateway.follower.catch_up(gateway.limits.catch_up_ms)
                    return answer
            except NotSentError:
                pass
            except UnansweredError:
                if frame.key not in READ_ONLY:
                    return await refusal(
                        gateway, frame, ErrorCode.REQUEST_TIMED_OUT, "the controller went away before it answered"
                    )
        if gateway.clock.monotonic_ms() >= until_ms:
            return await refusal(gateway, frame, ErrorCode.REQUEST_TIMED_OUT, "no controller is active")
        await backoff.wait()

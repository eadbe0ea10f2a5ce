"""Control APIs: the original frame to the active controller, as Apache Kafka's brokers forward it (KIP-590).

The controller answers once the write is committed; the answer goes on when this gateway's image has come so far, too.
So Metadata that is asked for next has the new topics, partitions, leaders and configs: a client reads its writes.

A controller that is away is waited for; after that, and when it went away without answering, the client is told
REQUEST_TIMED_OUT, which says that the outcome is unknown.
"""

from __future__ import annotations

from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.net.backoff import Backoff
from tailrace.net.metadata.follower import is_not_controller
from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.header import parse_request_header
from tailrace.wire.messages import ApiMessage
from tailrace.wire.refuse import refuse
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay.client import ClientLink
from tailrace_gateway.relay.node import Exchange
from tailrace_gateway.relay.requests import Frame

# Asking again does no harm.
READ_ONLY = frozenset(
    {
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


def decoded(frame: Frame) -> ApiMessage:
    """The request of a collected frame; raises Malformed."""
    data = memoryview(frame.data)[4:]
    body = data[parse_request_header(data).body_offset :]
    request: ApiMessage = codec.decode_request(frame.key, frame.version, body)
    return request


def refusal(frame: Frame, code: ErrorCode, message: str | None = None) -> bytes:
    """The answer frame that refuses the whole request."""
    response = refuse(decoded(frame), frame.key, frame.version, code, message)
    return codec.encode_response(response, frame.version, frame.correlation_id)


async def exchange(connection: ClientLink, address: Address, data: bytes, connect_ms: float) -> bytes:
    """Asks a service over this client's own connection to it; raises NotSentError or UnansweredError."""
    known = connection.exchanges.get(address)
    if known is None or not known.alive():
        try:
            known = await Exchange.open(address, connection.identity, connect_ms, connection.gateway.secret)
        except OSError as refused:
            connection.exchanges.pop(address, None)
            raise NotSentError(f"{address}: {refused}") from refused
        connection.exchanges[address] = known
        if connection.closed:
            known.close()
    try:
        return await known.ask(data)
    except OSError as lost:
        connection.exchanges.pop(address, None)
        raise UnansweredError(f"{address}: {lost}") from lost


def deposed(frame: Frame, answer: bytes) -> bool:
    """Whether a controller that is not active any more refused the request: another one will take it."""
    data = memoryview(answer)[4:]
    body = codec.response_body(frame.key, frame.version, data)
    return is_not_controller(codec.decode_response(frame.key, frame.version, body))


async def to_controller(gateway: Gateway, connection: ClientLink, frame: Frame) -> bytes:
    """Relays to the active controller and waits for one if there is none.

    A body that cannot be decoded raises Malformed here: the controller would close, which looks like its death.
    """
    decoded(frame)
    until_ms = gateway.clock.monotonic_ms() + gateway.limits.controller_wait_ms
    backoff = Backoff(gateway.clock, gateway.random)
    while True:
        address = gateway.follower.controller
        if address is not None:
            try:
                answer = await exchange(connection, address, frame.data, gateway.limits.connect_ms)
                if not deposed(frame, answer):
                    if frame.key not in READ_ONLY:
                        await gateway.follower.catch_up(gateway.limits.catch_up_ms)
                    return answer
            except NotSentError:
                pass
            except UnansweredError:
                if frame.key not in READ_ONLY:
                    return refusal(frame, ErrorCode.REQUEST_TIMED_OUT, "the controller went away before it answered")
        if gateway.clock.monotonic_ms() >= until_ms:
            return refusal(frame, ErrorCode.REQUEST_TIMED_OUT, "no controller is active")
        await backoff.wait()

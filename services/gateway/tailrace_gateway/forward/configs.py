"""DescribeConfigs and IncrementalAlterConfigs: what a broker knows alone goes to its node, the rest to the controller.

Its own configs are a broker's to describe, its loggers (KIP-412) to describe and to alter. A broker named by id is
asked at this connection's node, which refuses any id but its own, as Apache Kafka's brokers do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tailrace.errors import ErrorCode
from tailrace.kafka.resources import ConfigResource
from tailrace.net.members.endpoints import address_of
from tailrace.wire.apis import ApiKey
from tailrace.wire.messages import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from tailrace.wire.refuse import refuse
from tailrace_gateway.clients.client import ClientLink
from tailrace_gateway.forward.controller import (
    NotSentError,
    UnansweredError,
    checked_to_controller,
    exchange,
    request_of,
)
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay.node import CLIENT_ID
from tailrace_gateway.relay.requests import Frame


def _node_describes(resource: Any) -> bool:
    kind = resource.resource_type
    return kind == ConfigResource.BROKER_LOGGER or (kind == ConfigResource.BROKER and bool(resource.resource_name))


def _node_alters(resource: Any) -> bool:
    return bool(resource.resource_type == ConfigResource.BROKER_LOGGER)


SPLIT: Mapping[int, Callable[[Any], bool]] = {
    ApiKey.DESCRIBE_CONFIGS: _node_describes,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _node_alters,
}


async def answer(gateway: Gateway, connection: ClientLink, frame: Frame) -> bytes | memoryview:
    """Relays to the one who knows, or asks both and joins their results in the order asked."""
    async with request_of(gateway, frame) as request:
        own = [SPLIT[frame.key](resource) for resource in request.resources]
        if any(own):
            return await _answer_joined(gateway, connection, frame, request, own)
    return await checked_to_controller(gateway, connection, frame)


async def _answer_joined(
    gateway: Gateway, connection: ClientLink, frame: Frame, request: Any, own: Sequence[bool]
) -> bytes | memoryview:
    large = gateway.large
    results = iter(await _node(gateway, connection, frame, _part(request, own, True)))
    others: Any = iter(())
    if not all(own):
        part = _part(request, own, False)
        data = await large.encode_request(part, frame.version, frame.correlation_id, CLIENT_ID)
        asked = Frame(frame.route, frame.key, frame.version, frame.correlation_id, CLIENT_ID.encode(), data, frame.slot)
        others = iter(await _results(gateway, frame, await checked_to_controller(gateway, connection, asked)))
    response: Any = refuse(_part(request, (), True), frame.key, frame.version, ErrorCode.NONE)
    joined = [next(results if mine else others) for mine in own]
    if frame.key == ApiKey.DESCRIBE_CONFIGS:
        response.results = joined
    else:
        response.responses = joined
    return await large.encode(response, frame.version, frame.correlation_id)


def _part(request: Any, own: Sequence[bool], wanted: bool) -> Any:
    resources = [resource for resource, mine in zip(request.resources, own, strict=False) if mine == wanted]
    if isinstance(request, IncrementalAlterConfigsRequest):
        return IncrementalAlterConfigsRequest(resources=resources, validate_only=request.validate_only)
    return DescribeConfigsRequest(
        resources=resources,
        include_synonyms=request.include_synonyms,
        include_documentation=request.include_documentation,
    )


async def _node(gateway: Gateway, connection: ClientLink, frame: Frame, part: Any) -> Any:
    broker = gateway.image.brokers.get(connection.node_id)
    address = None if broker is None or broker.fenced else address_of(broker.endpoints, gateway.boot_id)
    code = ErrorCode.BROKER_NOT_AVAILABLE
    if address is not None:
        data = await gateway.large.encode_request(part, frame.version, frame.correlation_id, CLIENT_ID)
        try:
            answer = await exchange(connection, address, data, gateway.limits.connect_ms)
            return await _results(gateway, frame, answer)
        except NotSentError:
            pass
        except UnansweredError:
            if frame.key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
                code = ErrorCode.REQUEST_TIMED_OUT  # whether it acted is unknown
    return _rows(frame, await gateway.large.refuse(part, frame.key, frame.version, code))


async def _results(gateway: Gateway, frame: Frame, answer: bytes | memoryview) -> Any:
    return _rows(frame, await gateway.large.decode_response(frame.key, frame.version, answer))


def _rows(frame: Frame, response: Any) -> Any:
    return response.results if frame.key == ApiKey.DESCRIBE_CONFIGS else response.responses

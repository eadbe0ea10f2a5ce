"""DescribeConfigs: a broker's own configs are its node's to tell, everything else the controller's.

A broker named by id is asked at this connection's node, which refuses any id but its own, as Apache Kafka's brokers do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.errors import ErrorCode
from tailrace.kafka.resources import ConfigResource
from tailrace.net.endpoints import address_of
from tailrace.wire import codec
from tailrace.wire.messages import DescribeConfigsRequest
from tailrace.wire.refuse import refuse
from tailrace_gateway.forward import NotSentError, UnansweredError, decoded, exchange, to_controller
from tailrace_gateway.relay import Frame
from tailrace_gateway.upstream import CLIENT_ID

if TYPE_CHECKING:
    from tailrace_gateway.connection import ClientLink
    from tailrace_gateway.gateway import Gateway


async def describe(gateway: Gateway, connection: ClientLink, frame: Frame) -> bytes:
    """Relays to the one who knows, or asks both and joins their results in the order asked."""
    request: Any = decoded(frame)
    own = [r.resource_type == ConfigResource.BROKER and bool(r.resource_name) for r in request.resources]
    if not any(own):
        return await to_controller(gateway, connection, frame)
    results = iter(await _node(gateway, connection, frame, _part(request, own, True)))
    others: Any = iter(())
    if not all(own):
        part = _part(request, own, False)
        data = codec.encode_request(part, frame.version, frame.correlation_id, CLIENT_ID)
        asked = Frame(frame.route, frame.key, frame.version, frame.correlation_id, CLIENT_ID.encode(), data, frame.slot)
        others = iter(_results(frame, await to_controller(gateway, connection, asked)))
    response: Any = refuse(_part(request, own, True), frame.key, frame.version, ErrorCode.NONE)
    response.results = [next(results if mine else others) for mine in own]
    return codec.encode_response(response, frame.version, frame.correlation_id)


def _part(request: Any, own: list[bool], wanted: bool) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[resource for resource, mine in zip(request.resources, own, strict=True) if mine == wanted],
        include_synonyms=request.include_synonyms,
        include_documentation=request.include_documentation,
    )


async def _node(gateway: Gateway, connection: ClientLink, frame: Frame, part: DescribeConfigsRequest) -> Any:
    broker = gateway.image.brokers.get(connection.node_id)
    address = None if broker is None or broker.fenced else address_of(broker.endpoints, gateway.boot_id)
    if address is not None:
        data = codec.encode_request(part, frame.version, frame.correlation_id, CLIENT_ID)
        try:
            return _results(frame, await exchange(connection, address, data, gateway.limits.connect_ms))
        except (NotSentError, UnansweredError):
            pass
    return refuse(part, frame.key, frame.version, ErrorCode.BROKER_NOT_AVAILABLE).results


def _results(frame: Frame, answer: bytes) -> Any:
    body = codec.response_body(frame.key, frame.version, memoryview(answer)[4:])
    return codec.decode_response(frame.key, frame.version, body).results

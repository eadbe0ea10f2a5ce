"""DescribeCluster v0-2 (KIP-700).

v1: endpoint_type (KIP-919); controllers are not offered here. v2: fenced brokers on request (KIP-1073).
"""

from __future__ import annotations

from tailrace.errors import ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import DescribeClusterRequest, DescribeClusterResponse
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.handlers.operations import CLUSTER_OPERATIONS

_BROKERS = 1
_CONTROLLERS = 2


async def handle(request: DescribeClusterRequest, context: Context, gateway: Gateway) -> DescribeClusterResponse:
    if context.api_version >= 1 and request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of the wrong type.",
            endpoint_type=request.endpoint_type,
            cluster_id="",
            brokers=[],
        )
    image, identity = gateway.image, context.connection.session.identity
    brokers = []
    for _, broker in sorted(image.brokers.items()):
        endpoint = gateway.endpoint_of(broker, identity)
        if endpoint is None or (broker.fenced and not (context.api_version >= 2 and request.include_fenced_brokers)):
            continue
        host, port = endpoint
        brokers.append(
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=broker.broker_id, host=host, port=port, rack=broker.rack, is_fenced=broker.fenced
            )
        )
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=gateway.controller_id(identity),
        brokers=brokers,
    )
    if request.include_cluster_authorized_operations:
        response.authorized_operations = CLUSTER_OPERATIONS
    return response

"""ApiVersions v0-5. An unknown version gets a v0 body with UNSUPPORTED_VERSION that lists ApiVersions (KIP-511).

v3: client software name and version, refused if they are not words (KIP-511); features (KIP-584). v4: also features
that may be off, whose lowest level is 0 (KIP-1022). v5: the cluster and the node that the client means, checked where
it names both (KIP-1242). Produce is listed from 0, as Apache Kafka 4 does, because librdkafka infers features from
minimum versions; versions 0-2 close the connection when used.
"""

from __future__ import annotations

import re
from typing import Final

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.features import SUPPORTED
from tailrace.net.context import Context
from tailrace.wire.apis import APIS, ApiKey
from tailrace.wire.messages import ApiVersionsRequest, ApiVersionsResponse
from tailrace_gateway.gateway import Gateway

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NO_NODE: Final = -1
ADVERTISED_FROM: dict[int, int] = {ApiKey.PRODUCE: 0}


async def handle(request: ApiVersionsRequest, context: Context, gateway: Gateway) -> ApiVersionsResponse:
    if context.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if context.api_version >= 5:
        _check_target(request, context, gateway)
    if context.api_version >= 3:
        context.connection.session.name_software(request.client_software_name, request.client_software_version)
    image = gateway.image
    row, finalized = ApiVersionsResponse.ApiVersion, ApiVersionsResponse.FinalizedFeatureKey
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=[
            row(api_key=key, min_version=ADVERTISED_FROM.get(key, api.min_version), max_version=api.max_version)
            for key, api in sorted(gateway.table.items())
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            finalized(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(image.features.items())
            if level > 0
        ],
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
            for name, levels in sorted(SUPPORTED.items())
            if levels.lowest > 0 or context.api_version >= 4
        ],
    )


def _check_target(request: ApiVersionsRequest, context: Context, gateway: Gateway) -> None:
    """Refuses a client that means another cluster or node than it has reached; an unknown one of ours fits."""
    cluster_id, node_id = request.cluster_id, request.node_id
    if (cluster_id is None) != (node_id == _NO_NODE):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if cluster_id is None:
        return
    reached = context.connection.session.identity.node_id
    if gateway.image.cluster_id not in ("", cluster_id) or reached not in (_NO_NODE, node_id):
        raise ApiError(ErrorCode.REBOOTSTRAP_REQUIRED)


def unsupported() -> ApiVersionsResponse:
    """The answer to a version that is not served; its encoding is v0 whatever was asked."""
    api = APIS[ApiKey.API_VERSIONS]
    row = ApiVersionsResponse.ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[row])

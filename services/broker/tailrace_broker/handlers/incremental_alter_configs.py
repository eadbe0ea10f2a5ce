"""IncrementalAlterConfigs v0-1 of this broker's loggers (KIP-412); all other configs are the controller's to alter."""

from __future__ import annotations

from collections import Counter

from tailrace.config import loggers
from tailrace.config.alter import AlterConfigOp
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.resources import ConfigResource
from tailrace.metadata import names
from tailrace.net.context import Context
from tailrace.runtime import logs
from tailrace.wire.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse


async def handle(
    request: IncrementalAlterConfigsRequest, context: Context, node_id: int
) -> IncrementalAlterConfigsResponse:
    """One result per resource; the levels of one change together or not at all."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    rows = []
    for resource in request.resources:
        code, message = ErrorCode.NONE, None
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _alter(resource, node_id, validate_only=request.validate_only)
        except ApiError as refused:
            code, message = refused.code, refused.message
        rows.append(
            IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return IncrementalAlterConfigsResponse(responses=rows)


def _alter(resource: IncrementalAlterConfigsRequest.AlterConfigsResource, node_id: int, *, validate_only: bool) -> None:
    kind, name = resource.resource_type, resource.resource_name
    if kind != ConfigResource.BROKER_LOGGER:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"a broker alters its loggers, not resource type {kind}")
    if (number := names.broker_number(name)) is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if number != node_id:
        why = f"Unexpected node id. Expected {node_id}, but received {name}"
        raise ApiError(ErrorCode.INVALID_REQUEST, why)
    changes = [AlterConfigOp(one.name, one.config_operation, one.value) for one in resource.configs]
    levels = loggers.altered(logs.log_levels(), changes)
    if validate_only:
        return
    for logger, level in levels.items():
        logs.set_log_level(logger, level)
        logs.logger("broker", node_id, named=False).warning(
            "log level altered", logger=logger, level=level or "its parent's"
        )

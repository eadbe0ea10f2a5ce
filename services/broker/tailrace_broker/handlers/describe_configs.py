"""DescribeConfigs v1-4 of this broker: every config with its source and synonyms. v3: documentation and type (KIP-569).

Topics and the cluster-wide defaults are the controller's to answer; a broker knows what it was started with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.config import describe
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import DescribeConfigsRequest, DescribeConfigsResponse
from tailrace_broker.storage import BROKER

if TYPE_CHECKING:
    from tailrace_broker.broker import Broker

_Result = DescribeConfigsResponse.DescribeConfigsResult
_Entry = _Result.DescribeConfigsResourceResult
_Synonym = _Entry.DescribeConfigsSynonym


async def handle(request: DescribeConfigsRequest, context: Context, broker: Broker) -> DescribeConfigsResponse:
    """One result per asked resource."""
    return DescribeConfigsResponse(results=[_describe(asked, request, broker) for asked in request.resources])


def _describe(asked: Any, request: DescribeConfigsRequest, broker: Broker) -> Any:
    kind, name = asked.resource_type, asked.resource_name
    try:
        entries = _entries(kind, name, broker)
    except ApiError as refused:
        return _Result(
            error_code=int(refused.code),
            error_message=refused.message,
            resource_type=kind,
            resource_name=name,
            configs=[],
        )
    wanted = None if asked.configuration_keys is None else set(asked.configuration_keys)
    configs = [
        wire_entry(entry, synonyms=request.include_synonyms, documentation=request.include_documentation)
        for entry in entries
        if wanted is None or entry.name in wanted
    ]
    return _Result(error_code=0, error_message="", resource_type=kind, resource_name=name, configs=configs)


def _entries(kind: int, name: str, broker: Broker) -> list[describe.Entry]:
    if kind != BROKER:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"a broker describes broker configs, not resource type {kind}")
    if name != str(broker.node_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {broker.node_id}, but received {name}"
        )
    image = broker.image
    return describe.broker(broker.static_config, image.config(BROKER, ""), image.config(BROKER, name))


def wire_entry(entry: describe.Entry, *, synonyms: bool, documentation: bool) -> Any:
    """One config as the response carries it."""
    return _Entry(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.is_sensitive,
        synonyms=[_Synonym(name=s.name, value=s.value, source=int(s.source)) for s in entry.synonyms]
        if synonyms
        else [],
        config_type=entry.type,
        documentation=entry.documentation if documentation else None,
    )

"""DescribeConfigs v1-4 of this broker: every config with its source and synonyms. v3: documentation and type (KIP-569).

Topics and the cluster-wide defaults are the controller's to answer; a broker knows what it was started with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from tailrace.config import describe
from tailrace.errors import ErrorCode
from tailrace.kafka.resources import ALL_BROKERS, ConfigResource
from tailrace.net.context import Context
from tailrace.wire.messages import DescribeConfigsRequest, DescribeConfigsResponse

if TYPE_CHECKING:
    from tailrace_broker.broker import Broker

_Result = DescribeConfigsResponse.DescribeConfigsResult
_Entry = _Result.DescribeConfigsResourceResult
_Synonym = _Entry.DescribeConfigsSynonym


async def handle(request: DescribeConfigsRequest, context: Context, broker: Broker) -> DescribeConfigsResponse:
    """One result per asked resource."""

    @cache
    def rows() -> list[Any]:  # whoever asks more than once gets the same ones
        image, name = broker.image, str(broker.node_id)
        entries = describe.broker(
            broker.static_config,
            image.config(ConfigResource.BROKER, ALL_BROKERS),
            image.config(ConfigResource.BROKER, name),
        )
        synonyms, documentation = request.include_synonyms, request.include_documentation
        return [wire_entry(entry, synonyms=synonyms, documentation=documentation) for entry in entries]

    return DescribeConfigsResponse(results=[_describe(asked, broker, rows) for asked in request.resources])


def _describe(asked: Any, broker: Broker, rows: Callable[[], list[Any]]) -> Any:
    kind, name = asked.resource_type, asked.resource_name
    refusal, configs = None, []
    if kind != ConfigResource.BROKER:
        refusal = f"a broker describes broker configs, not resource type {kind}"
    elif name != str(broker.node_id):
        refusal = f"Unexpected broker id, expected {broker.node_id}, but received {name}"
    else:
        wanted = set(asked.configuration_keys or ())  # none named is all, as null is
        configs = [row for row in rows() if not wanted or row.name in wanted]
    return _Result(
        error_code=int(ErrorCode.NONE if refusal is None else ErrorCode.INVALID_REQUEST),
        error_message=refusal or "",
        resource_type=kind,
        resource_name=name,
        configs=configs,
    )


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

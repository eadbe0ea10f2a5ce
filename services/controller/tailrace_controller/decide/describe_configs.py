"""DescribeConfigs (KIP-226, KIP-569) and ListConfigResources (KIP-1142)."""

from typing import Any

from tailrace.config import Config, describe
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata import names
from tailrace.metadata.image import MetadataImage
from tailrace.wire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tailrace_controller.decide import resources
from tailrace_controller.effects import Effects

_Result = DescribeConfigsResponse.DescribeConfigsResult
_Config = _Result.DescribeConfigsResourceResult


def describe_configs(
    image: MetadataImage, request: DescribeConfigsRequest, config: Config
) -> Effects[DescribeConfigsResponse]:
    """Describes every config of each resource, with source and synonyms; each resource has its own error."""
    results = []
    for resource in request.resources:
        # Success carries "" and not null, as Apache Kafka 4.3.1 does.
        code, message, rows = ErrorCode.NONE, "", []
        try:
            entries = _entries(image, resource.resource_type, resource.resource_name, config)
            wanted = None if resource.configuration_keys is None else set(resource.configuration_keys)
            rows = [
                _row(entry, synonyms=request.include_synonyms, documentation=request.include_documentation)
                for entry in entries
                if wanted is None or entry.name in wanted
            ]
        except ApiError as refused:
            code, message = refused.code, refused.message or ""
        results.append(
            _Result(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=rows,
            )
        )
    return Effects(DescribeConfigsResponse(results=results))


def _entries(image: MetadataImage, kind: int, name: str, config: Config) -> list[describe.Entry]:
    own = image.config(kind, name)
    if kind == resources.TOPIC:
        if (why := names.refusal(name)) is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        if name not in image.topics:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe.topic(own, resources.cluster_config(image, config))
    if kind == resources.BROKER:
        resources.check_describable_broker(image, name)
        if name == resources.CLUSTER_DEFAULT:
            return describe.cluster_default(own)
        return describe.broker(config, image.config(kind, resources.CLUSTER_DEFAULT), own)
    if kind == resources.GROUP:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe.group(own, resources.cluster_config(image, config))
    if kind == resources.CLIENT_METRICS:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return describe.client_metrics(own, config)
    raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")


def _row(entry: describe.Entry, *, synonyms: bool, documentation: bool) -> Any:
    return _Config(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        config_type=entry.type,
        synonyms=[
            _Config.DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (entry.synonyms if synonyms else ())
        ],
        documentation=entry.documentation if documentation else None,
    )


def list_resources(
    image: MetadataImage, request: ListConfigResourcesRequest, version: int
) -> Effects[ListConfigResourcesResponse]:
    """Names config resources by type; v0 knows client metrics only, an empty list in v1 means all types."""
    brokers = [str(broker_id) for broker_id in sorted(image.brokers)]
    present = {
        resources.TOPIC: sorted(image.topics),
        resources.BROKER: brokers,
        resources.BROKER_LOGGER: brokers,
        resources.CLIENT_METRICS: _configured(image, resources.CLIENT_METRICS),
        resources.GROUP: _configured(image, resources.GROUP),
    }
    wanted = [resources.CLIENT_METRICS] if version == 0 else list(request.resource_types) or list(present)
    if any(kind not in present for kind in wanted):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    row = ListConfigResourcesResponse.ConfigResource
    rows = [row(resource_name=name, resource_type=kind) for kind in wanted for name in present[kind]]
    return Effects(ListConfigResourcesResponse(error_code=0, config_resources=rows))


def _configured(image: MetadataImage, kind: int) -> list[str]:
    return sorted(name for resource_type, name in image.configs if resource_type == kind)

"""DescribeConfigs (KIP-226, KIP-569) and ListConfigResources (KIP-1142)."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from tailrace.config import Config, describe
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.resources import ALL_BROKERS, ConfigResource
from tailrace.metadata import names
from tailrace.metadata.image import MetadataImage
from tailrace.net.limits.answer_budget import fitting, text_bytes
from tailrace.wire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tailrace_controller.decide import resources
from tailrace_controller.decide.controller_result import ControllerResult

_Result = DescribeConfigsResponse.DescribeConfigsResult
_RESOURCE_BYTES = 8  # of a name in the list
_Config = _Result.DescribeConfigsResourceResult


def describe_configs(
    image: MetadataImage, request: DescribeConfigsRequest, config: Config
) -> ControllerResult[DescribeConfigsResponse]:
    """Describes every config of each resource, with source and synonyms; each resource has its own error."""
    return ControllerResult(DescribeConfigsResponse(results=list(described(image, request, config))))


def described(image: MetadataImage, request: DescribeConfigsRequest, config: Config) -> Iterator[_Result]:
    """The same, one result after the other: of one image, so that others may have their turn in between."""
    description = _Description(image, request, config)
    for resource in request.resources:
        # Success carries "" and not null, as Apache Kafka 4.3.1 does.
        code, message, rows = ErrorCode.NONE, "", []
        try:
            rows = description.rows(resource.resource_type, resource.resource_name)
            if (
                resource.configuration_keys
            ):  # none named is all, as null is: librdkafka and kafka-node send an empty list
                wanted = set(resource.configuration_keys)
                rows = [row for row in rows if row.name in wanted]
        except ApiError as refused:
            code, message = refused.code, refused.message or ""
        yield _Result(
            error_code=code,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=rows,
        )


class _Description:
    """The rows of one request: what several resources have in common is described once."""

    def __init__(self, image: MetadataImage, request: DescribeConfigsRequest, config: Config) -> None:
        self._image = image
        self._config = config
        self._request = request
        self._brokers: dict[str, list[_Config]] = {}

    def rows(self, kind: int, name: str) -> list[_Config]:
        """Returns a resource's rows, which others may share. Raises ApiError."""
        own = self._image.config(kind, name)
        if kind == ConfigResource.TOPIC:
            return self._topic(name, own)
        if kind == ConfigResource.BROKER:
            return self._broker(name, own)
        if kind == ConfigResource.GROUP:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return self._described(describe.group(own, self._cluster))
        if kind == ConfigResource.CLIENT_METRICS:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            return self._described(describe.client_metrics(own, self._config))
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")

    @cached_property
    def _cluster(self) -> Config:
        return resources.cluster_config(self._image, self._config)

    @cached_property
    def _topics(self) -> list[_Config]:
        return self._described(describe.topic({}, self._cluster))

    def _topic(self, name: str, own: Mapping[str, str]) -> list[_Config]:
        if (why := names.refusal(name)) is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        if name not in self._image.topics:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not own:
            return self._topics
        rows = {row.name: row for row in self._described(describe.overridden(own, self._cluster))}
        return [rows.get(row.name, row) for row in self._topics]

    def _broker(self, name: str, own: Mapping[str, str]) -> list[_Config]:
        if name not in self._brokers:
            resources.check_describable_broker(self._image, name)
            if name == ALL_BROKERS:
                entries = describe.cluster_default(own)
            else:
                default = self._image.config(ConfigResource.BROKER, ALL_BROKERS)
                entries = describe.broker(self._config, default, own)
            self._brokers[name] = self._described(entries)
        return self._brokers[name]

    def _described(self, entries: Iterable[describe.ConfigEntry]) -> list[_Config]:
        synonyms, documentation = self._request.include_synonyms, self._request.include_documentation
        return [_row(entry, synonyms=synonyms, documentation=documentation) for entry in entries]


def _row(entry: describe.ConfigEntry, *, synonyms: bool, documentation: bool) -> _Config:
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
) -> ControllerResult[ListConfigResourcesResponse]:
    """Names config resources by type; v0 knows client metrics only, an empty list in v1 means all types.

    MESSAGE_TOO_LARGE where they are too many for one answer.
    """
    brokers = [str(broker_id) for broker_id in sorted(image.brokers)]
    present: dict[int, list[str]] = {
        ConfigResource.TOPIC: sorted(image.topics),
        ConfigResource.BROKER: brokers,
        ConfigResource.BROKER_LOGGER: brokers,
        ConfigResource.CLIENT_METRICS: _configured(image, ConfigResource.CLIENT_METRICS),
        ConfigResource.GROUP: _configured(image, ConfigResource.GROUP),
    }
    wanted = [ConfigResource.CLIENT_METRICS] if version == 0 else list(request.resource_types) or list(present)
    if any(kind not in present for kind in wanted):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    row = ListConfigResourcesResponse.ConfigResource
    found = ((kind, name) for kind in wanted for name in present[kind])
    rows = [row(resource_name=name, resource_type=kind) for kind, name in fitting(found, _size_bytes)]
    return ControllerResult(ListConfigResourcesResponse(error_code=0, config_resources=rows))


def _size_bytes(resource: tuple[int, str]) -> int:
    return _RESOURCE_BYTES + text_bytes(resource[1])


def _configured(image: MetadataImage, kind: int) -> list[str]:
    return sorted(name for resource_type, name in image.configs if resource_type == kind)

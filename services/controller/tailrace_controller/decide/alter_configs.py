"""AlterConfigs (replaces a resource's configs) and IncrementalAlterConfigs (KIP-339): records and errors of each.

Two configs change partitions too: with another min.insync.replicas nobody is eligible any more who is not in sync
(KIP-966), and where unclean elections become allowed, partitions without a leader get one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tailrace.config import Config, alter
from tailrace.config.definition import ConfigScope
from tailrace.config.topic import validate as validate_topic
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.resources import ConfigResource
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import ConfigRecord, MetadataRecord
from tailrace.metadata.replay import planned
from tailrace.wire.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tailrace_controller.decide import elections, record_text, resources, topic_rules
from tailrace_controller.decide.controller_result import ControllerResult, check_size

_SCOPES = {
    ConfigResource.TOPIC: ConfigScope.TOPIC,
    ConfigResource.BROKER: ConfigScope.BROKER,
    ConfigResource.GROUP: ConfigScope.GROUP,
    ConfigResource.CLIENT_METRICS: ConfigScope.CLIENT_METRICS,
}


def incremental(
    image: MetadataImage, request: IncrementalAlterConfigsRequest, config: Config
) -> ControllerResult[IncrementalAlterConfigsResponse]:
    """Sets, deletes, appends to and subtracts from single configs."""

    def changed(current: Mapping[str, str], resource: Any) -> dict[str, str]:
        changes = [alter.AlterConfigOp(one.name, one.config_operation, one.value) for one in resource.configs]
        scope = _SCOPES[resource.resource_type]
        return alter.apply(current, changes, alter.DEFINITIONS_OF[scope])

    row = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    rows, records = _each(image, request.resources, config, changed, row)
    return ControllerResult(IncrementalAlterConfigsResponse(responses=rows), () if request.validate_only else records)


def replacing(
    image: MetadataImage, request: AlterConfigsRequest, config: Config
) -> ControllerResult[AlterConfigsResponse]:
    """Makes the named configs all there are of each resource."""

    def changed(_current: Mapping[str, str], resource: Any) -> dict[str, str]:
        changes = [alter.AlterConfigOp(one.name, alter.Operation.SET, one.value) for one in resource.configs]
        return alter.apply({}, changes, {})

    rows, records = _each(image, request.resources, config, changed, AlterConfigsResponse.AlterConfigsResourceResponse)
    return ControllerResult(AlterConfigsResponse(responses=rows), () if request.validate_only else records)


def _each(
    image: MetadataImage,
    asked: Any,
    config: Config,
    changed: Callable[[Mapping[str, str], Any], dict[str, str]],
    row: Any,
) -> tuple[list[Any], tuple[MetadataRecord, ...]]:
    times = Counter((resource.resource_type, resource.resource_name) for resource in asked)
    cluster = resources.cluster_config(image, config)
    records: list[MetadataRecord] = []
    rows = []
    for resource in asked:
        kind, name = resource.resource_type, resource.resource_name
        code, message = ErrorCode.NONE, None
        try:
            if times[kind, name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            resources.check_exists(image, kind, name)
            current = image.config(kind, name)
            after = changed(current, resource)
            validate(kind, name, current, after, cluster)
            difference = _difference(kind, name, current, after)
            is_broker = kind == ConfigResource.BROKER
            record_text.check(difference, ErrorCode.INVALID_REQUEST if is_broker else ErrorCode.INVALID_CONFIG)
            records += difference
        except ApiError as refused:
            code, message = refused.code, refused.message
        check_size(records)
        rows.append(row(error_code=code, error_message=message, resource_type=kind, resource_name=name))
    return rows, (*records, *_consequences(image, records, config))


def _consequences(image: MetadataImage, changed: Iterable[MetadataRecord], config: Config) -> Iterator[MetadataRecord]:
    records = [record for record in changed if isinstance(record, ConfigRecord)]
    names = {record.name for record in records}
    if topic_rules.MIN_INSYNC_REPLICAS in names:
        touched = {record.resource_name for record in records if record.resource_type == ConfigResource.TOPIC}
        everywhere = any(record.resource_type == ConfigResource.BROKER for record in records)
        yield from elections.forget_eligible(
            topic for topic in image.topics.values() if everywhere or topic.name in touched
        )
    if topic_rules.UNCLEAN_LEADER_ELECTION in names:
        yield from elections.unclean(planned(image, records), config)


def validate(kind: int, name: str, current: Mapping[str, str], after: Mapping[str, str], cluster: Config) -> None:
    """Raises Kafka's error if the resource may not have these configs. cluster is resources.cluster_config."""
    if kind == ConfigResource.TOPIC:
        validate_topic(after, cluster)
    elif kind == ConfigResource.BROKER:
        changed = [key for key in after if after[key] != current.get(key)]
        if name and topic_rules.MIN_INSYNC_REPLICAS in changed:
            why = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
            raise ApiError(ErrorCode.INVALID_CONFIG, why)
        alter.validate_broker(after, changed, name)
    elif kind == ConfigResource.GROUP:
        alter.validate_group(after, cluster)
    else:
        alter.validate_client_metrics(after)


def _difference(kind: int, name: str, current: Mapping[str, str], after: Mapping[str, str]) -> list[MetadataRecord]:
    gone: list[MetadataRecord] = [ConfigRecord(kind, name, key, None) for key in current if key not in after]
    return gone + [ConfigRecord(kind, name, key, after[key]) for key in after if current.get(key) != after[key]]

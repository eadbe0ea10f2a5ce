"""Config resources: their types, which of them exist, and the cluster's config with its dynamic defaults."""

from collections.abc import Collection

from tailrace.config import Config
from tailrace.config.alter import DEFINITIONS_OF
from tailrace.config.config import not_honoured
from tailrace.config.definition import HIDDEN, ConfigScope
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.resources import ALL_BROKERS, ConfigResource
from tailrace.metadata import names
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import ConfigRecord, MetadataRecord

_ALTERABLE = {
    kind.value: ConfigScope(kind.label) for kind in ConfigResource if kind is not ConfigResource.BROKER_LOGGER
}


def cluster_config(image: MetadataImage, config: Config) -> Config:
    """Returns the config that topics and groups fall back to: the static one under the cluster-wide dynamic one."""
    default = image.config(ConfigResource.BROKER, ALL_BROKERS)
    return config.with_dynamic(default, {}) if default else config


def without_effect(records: Collection[MetadataRecord]) -> list[str]:
    """Says which configs that are being set have no effect yet; for the log."""
    if ConfigRecord not in map(type, records):  # thousands of partitions have none
        return []
    sentences = []
    for record in records:
        if not (isinstance(record, ConfigRecord) and record.value is not None and record.resource_type in _ALTERABLE):
            continue
        scope = _ALTERABLE[record.resource_type]
        for name in not_honoured({record.name: record.value}, DEFINITIONS_OF[scope]):
            shown = HIDDEN if DEFINITIONS_OF[scope][name].sensitive else record.value
            place = f"{scope.value} {record.resource_name or 'default'}"
            sentences.append(f"{name}={shown} is accepted but has no effect in Tailrace yet. (set on {place})")
    return sentences


def check_exists(image: MetadataImage, resource_type: int, name: str) -> None:
    """Raises Kafka's error for a resource whose configs cannot be altered."""
    if resource_type == ConfigResource.TOPIC:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        if (why := names.refusal(name)) is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        if name not in image.topics:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    elif resource_type == ConfigResource.BROKER:
        if name != ALL_BROKERS and broker_id(name, "Node") not in image.brokers:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{_expected(image)}, but received {name}")
    elif resource_type == ConfigResource.GROUP:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    elif resource_type == ConfigResource.CLIENT_METRICS:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    else:  # a broker's loggers are that broker's to alter; AlterConfigs knows none in Apache Kafka, too
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def check_describable_broker(image: MetadataImage, name: str) -> None:
    """Raises Kafka's error unless the name is a registered broker's or the cluster default's."""
    if name != ALL_BROKERS and broker_id(name, "Broker") not in image.brokers:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{_expected(image)} or empty string, but received {name}")


def broker_id(name: str, what: str) -> int:
    """Returns the number that a broker resource is named by; INVALID_REQUEST if it is none."""
    if (number := names.broker_number(name)) is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {name}")
    return number


def _expected(image: MetadataImage) -> str:
    # A Kafka broker expects its own id; here any broker's will do.
    return f"Unexpected broker id, expected {', '.join(str(known) for known in sorted(image.brokers))}"

"""The configs of one topic: its own overrides, else the broker's log.* keys, else Kafka's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailrace.config.config import Config
from tailrace.config.definition import ConfigDef, ConfigError
from tailrace.config.definitions import TOPIC_DEFINITIONS
from tailrace.config.topic_values import TopicValues
from tailrace.config.validators import Value
from tailrace.errors import ApiError, ErrorCode


class TopicConfig(TopicValues):
    """Typed values of all topic keys; compare two to see whether a change matters."""

    __slots__ = ()

    @classmethod
    def of(cls, overrides: Mapping[str, str], broker: Config) -> TopicConfig:
        """Builds the effective configs. Raises ConfigError for a bad override; unknown keys are passed over."""
        values: dict[str, Any] = {}
        for name, definition in TOPIC_DEFINITIONS.items():
            text = overrides.get(name)
            values[definition.attribute] = inherited(definition, broker) if text is None else definition.parse(text)
        return cls(**values)


def inherited(definition: ConfigDef, broker: Config) -> Value:
    """What a topic or group key is when it is not set itself: the first broker key that is set, else the default.

    log.retention.ms stands over minutes over hours, whoever set them; log.roll.* and log.flush.* likewise.
    """
    for synonym in definition.synonyms:
        value = broker.get(synonym.name)
        if value is None:
            continue
        if synonym.factor == 1 or not isinstance(value, int):
            return value
        return -1 if value < 0 else value * synonym.factor
    return definition.default


def validate(overrides: Mapping[str, str | None], broker: Config) -> None:
    """Refuses a topic's overrides as Kafka does: ApiError INVALID_CONFIG with Kafka's sentence."""
    parsed: dict[str, Value] = {}
    for name, text in overrides.items():
        definition = TOPIC_DEFINITIONS.get(name)
        if definition is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        if text is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        try:
            parsed[name] = definition.parse(text)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
    if parsed.get("remote.storage.enable"):
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )
    lags = []
    for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"):
        value = parsed[name] if name in parsed else inherited(TOPIC_DEFINITIONS[name], broker)
        assert isinstance(value, int)
        lags.append(value)
    least, most = lags
    if least > most:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})",
        )

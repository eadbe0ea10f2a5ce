"""Config resources: which exist, and the effective configs of a topic as CreateTopics answers them (KIP-525)."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from tailrace.config import TOPIC_DEFINITIONS, Config
from tailrace.config.topic import inherited
from tailrace.wire.messages import CreateTopicsResponse

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
CLUSTER_DEFAULT = ""  # the name of the resource that stands for all brokers


class Source(IntEnum):
    """Where a config value comes from, as DescribeConfigs numbers it."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


def topic_config_rows(overrides: Mapping[str, str | None], config: Config) -> list[Any]:
    """Returns every topic config with its effective value and its source."""
    row = CreateTopicsResponse.CreatableTopicResult.CreatableTopicConfigs
    rows = []
    for name, definition in TOPIC_DEFINITIONS.items():
        if name in overrides:
            value, source = overrides[name], Source.TOPIC
        else:
            value = definition.text(inherited(definition, config))
            given = any(config.set_somewhere(synonym.name) for synonym in definition.synonyms)
            source = Source.STATIC_BROKER if given else Source.DEFAULT
        rows.append(
            row(name=name, value=value, read_only=False, config_source=source, is_sensitive=definition.sensitive)
        )
    return rows

"""Which configs of another cluster's image we have, and take the values of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tailrace.config.definition import ConfigError
from tailrace.config.definitions import (
    CLIENT_METRICS_DEFINITIONS,
    DEFINITIONS,
    GROUP_DEFINITIONS,
    TOPIC_DEFINITIONS,
)
from tailrace.kafka.resources import ConfigResource
from tailrace.metadata.image import MetadataImage, ResourceKey

_DEFINITIONS: Final = {
    2: TOPIC_DEFINITIONS,
    ConfigResource.BROKER: DEFINITIONS,
    16: CLIENT_METRICS_DEFINITIONS,
    32: GROUP_DEFINITIONS,
}
RESOURCE_NAMES: Final = {2: "topic", ConfigResource.BROKER: "broker", 16: "client metrics", 32: "group"}


def unknown_configs(image: MetadataImage) -> Iterator[tuple[ResourceKey, str]]:
    """The configs, by resource and name, that we do not have or whose value we do not take."""
    for (kind, resource), values in image.configs.items():
        definitions = _DEFINITIONS.get(kind, {})
        for name, text in values.items():
            try:
                definitions[name].parse(text)
            except (KeyError, ConfigError):
                yield (kind, resource), name


def without_configs(image: MetadataImage, left_out: list[tuple[ResourceKey, str]]) -> MetadataImage:
    """The image without these configs."""
    gone = set(left_out)
    configs = {
        key: {name: text for name, text in values.items() if (key, name) not in gone}
        for key, values in image.configs.items()
    }
    return replace(image, configs={key: values for key, values in configs.items() if values})

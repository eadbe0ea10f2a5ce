"""Config resources: their types as requests and metadata records number them, and where a value comes from."""

from enum import IntEnum
from typing import Final

ALL_BROKERS: Final = ""  # the name of the broker resource that stands for the cluster-wide default (KIP-226)


class ConfigResource(IntEnum):
    """Types of config resources (org.apache.kafka.common.config.ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @property
    def label(self) -> str:
        """As kafka-configs.sh names the type, in the singular: "client-metrics"."""
        return self.name.lower().replace("_", "-")


class ConfigSource(IntEnum):
    """Where a config's value comes from, as DescribeConfigs v1 and later number it (KIP-226)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8

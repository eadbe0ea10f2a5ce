"""Every config of Apache Kafka 4.4.0 and of Tailrace once, and what a role or a topic makes of them. Pure."""

from __future__ import annotations

from tailrace.config.config import Config
from tailrace.config.definition import LONG_MAX, ConfigDef, ConfigError
from tailrace.config.definitions import DEFINITIONS, TOPIC_DEFINITIONS
from tailrace.config.topic import TopicConfig

__all__ = ["DEFINITIONS", "LONG_MAX", "TOPIC_DEFINITIONS", "Config", "ConfigDef", "ConfigError", "TopicConfig"]

"""Configs as JSON, and their changes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from tailrace_gateway.rest.models import Metadata, Rows, Text, Wanted


class Synonym(BaseModel):
    name: str
    value: str | None
    source: str


class Config(BaseModel):
    """A config of a topic or a broker, or of all brokers; which one says kind."""

    kind: Literal["KafkaTopicConfig", "KafkaBrokerConfig", "KafkaClusterConfig"]
    metadata: Metadata
    cluster_id: str
    topic_name: str | None = None
    broker_id: int | None = None
    config_type: str | None = None
    name: str
    value: str | None
    is_read_only: bool
    is_sensitive: bool
    is_default: bool
    source: str
    synonyms: list[Synonym]


class ConfigValue(Wanted):
    value: Text | None


class ConfigChange(Wanted):
    name: Text
    operation: Literal["SET", "DELETE"] = "SET"
    value: Text | None = None


class ConfigChanges(Wanted):
    data: Rows[ConfigChange]
    validate_only: bool = False


class TopicConfigChanges(Wanted):
    topic_name: Text
    configs: Rows[ConfigChange]


class ManyTopicConfigChanges(Wanted):
    """Each topic changes whole or not at all, whatever becomes of the others."""

    data: Rows[TopicConfigChanges]
    validate_only: bool = False


class TopicConfigFailure(BaseModel):
    topic_name: str
    error_code: int
    message: str


class TopicConfigFailures(BaseModel):
    """The topics that did not change, and why."""

    failures: list[TopicConfigFailure]

"""Topics of the cluster, asked by the Kafka client that the connector brings: same options, same security."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

_ANSWER_MS = "10000"


class Topic(NamedTuple):
    """What it takes to make a topic again: `configs` are those set on the topic itself."""

    name: str
    partitions: int
    configs: dict[str, str]


class Admin:
    """A Java Admin client behind a few Python methods; all raise Py4JJavaError."""

    def __init__(self, spark: SparkSession, client: Any) -> None:
        self._java: Any = spark._jvm
        self._client = client

    def names(self) -> set[str]:
        """All topics but the internal ones."""
        return set(self._client.listTopics().names().get())

    def describe(self, names: list[str]) -> list[Topic]:
        """The topics as they are."""
        kind = self._java.org.apache.kafka.common.config.ConfigResource
        resources = {name: kind(getattr(kind, "Type").TOPIC, name) for name in names}  # noqa: B009 - a Java class
        described = self._client.describeTopics(self._list(names)).allTopicNames().get()
        configs = self._client.describeConfigs(self._list(resources.values())).all().get()
        return [
            Topic(
                name,
                described[name].partitions().size(),
                {
                    entry.name(): entry.value()
                    for entry in configs[resource].entries().toArray()
                    if str(entry.source()) == "DYNAMIC_TOPIC_CONFIG"
                },
            )
            for name, resource in resources.items()
        ]

    def create(self, topic: Topic) -> None:
        """Makes the topic with the cluster's default replication factor."""
        optional = self._java.java.util.Optional
        new = self._java.org.apache.kafka.clients.admin.NewTopic(
            topic.name, optional.of(topic.partitions), optional.empty()
        )
        self._client.createTopics(self._list([new.configs(self._map(topic.configs))])).all().get()

    def _list(self, items: Any) -> Any:
        made = self._java.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made

    def _map(self, items: Mapping[str, str]) -> Any:
        made = self._java.java.util.HashMap()
        for key, value in items.items():
            made.put(key, value)
        return made


@contextmanager
def admin(spark: SparkSession, connection: Mapping[str, str]) -> Iterator[Admin]:
    """An Admin for the connector's options (`kafka.` before each key), closed at the end."""
    jvm: Any = spark._jvm
    limits = {"kafka.default.api.timeout.ms": _ANSWER_MS, "kafka.request.timeout.ms": _ANSWER_MS}
    properties = jvm.java.util.Properties()
    for key, value in {**limits, **connection}.items():
        properties.setProperty(key.removeprefix("kafka."), value)
    client = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    try:
        yield Admin(spark, client)
    finally:
        client.close(jvm.java.time.Duration.ofSeconds(1))

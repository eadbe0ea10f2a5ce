"""The partitions that a request names."""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.kafka.ids import TopicPartition
from tailrace.metadata.image import MetadataImage
from tailrace_gateway.rest.errors import unknown_topic
from tailrace_gateway.rest.topics.models import SomePartitions


def named_partitions(image: MetadataImage, rows: Iterable[SomePartitions]) -> set[TopicPartition]:
    """Each once, as a topic is expanded once, however often it is named; RestError for a topic that does not exist."""
    found = set[TopicPartition]()
    whole: dict[str, bool] = {}  # by name: whether all its partitions are meant
    for row in rows:
        found.update((row.topic_name, index) for index in row.partition_ids)
        whole[row.topic_name] = whole.get(row.topic_name, False) or not row.partition_ids
    for name, is_whole in whole.items():
        topic = image.topic(name)
        if topic is None:
            raise unknown_topic()
        if is_whole:
            found.update((name, index) for index in range(len(topic.partitions)))
    return found

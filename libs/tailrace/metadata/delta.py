"""What two images of the cluster differ in, worked out once for all who are told (Kafka's MetadataDelta)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from uuid import UUID

from tailrace.metadata.image import MetadataImage, changed


class MetadataDelta:
    """The step from one image to the next."""

    def __init__(self, old: MetadataImage, new: MetadataImage) -> None:
        self.old = old
        self.new = new

    @cached_property
    def deleted_topics(self) -> Mapping[str, UUID]:
        """The ids of topics that are no more, by name; a name may belong to another topic by now."""
        before = [self.old.topics.get(name) for name in changed(self.old.topics, self.new.topics)]
        return {
            topic.name: topic.topic_id
            for topic in before
            if topic is not None and topic.topic_id not in self.new.topic_names
        }

    @cached_property
    def changed_topics(self) -> frozenset[str]:
        """The names of topics that came or went, or that have other partitions or replicas."""
        names = changed(self.old.topics, self.new.topics)
        return frozenset(name for name in names if _shape(self.old, name) != _shape(self.new, name))


def _shape(image: MetadataImage, name: str) -> tuple[UUID, tuple[tuple[int, ...], ...]] | None:
    topic = image.topics.get(name)
    return None if topic is None else (topic.topic_id, tuple(each.replicas for each in topic.partitions))

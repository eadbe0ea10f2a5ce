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

"""Topics as Metadata names them, encoded, and kept while the image has them so."""

from __future__ import annotations

from typing import TypeAlias

from tailrace.metadata.image import MetadataImage, TopicImage

_KINDS_KEPT, _SOME = 4, 100  # clients of one cluster speak few versions; topics that are gone are not kept for long
MetadataVariant: TypeAlias = tuple[int, bool]  # version, and whether it tells the authorized operations
Encoded: TypeAlias = dict[str, tuple[TopicImage, bytes]]


class EncodedTopics:
    """Topics as Metadata tells them, encoded: one until the image has another of that name or other brokers.

    All clients ask for the same ones, and all at once when a broker dies. What is told of a topic does not depend on
    who asks: where the gateway names its own ports all brokers have an address, else those with a CLIENT listener.
    The event loop and the codec thread may both add a topic: then it is the same one.
    """

    def __init__(self) -> None:
        self._brokers: object = None
        self._topics: dict[MetadataVariant, Encoded] = {}

    def of(self, image: MetadataImage, kind: MetadataVariant) -> Encoded:
        """What was told under these brokers; who adds to it must have worked with this image."""
        kept = sum(len(encoded) for encoded in self._topics.values())
        if self._brokers is not image.brokers or kept > _KINDS_KEPT * len(image.topics) + _SOME:
            self._brokers, self._topics = image.brokers, {}
        return self._topics.setdefault(kind, {})

"""The topics of an image that a user may describe. A right is asked for when a topic is looked at, once for each topic.

So a request about one topic of 10,000 asks once, and a list of all is filtered where it is made, in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

from tailrace.metadata.image import TopicImage


class VisibleTopics(Mapping[str, TopicImage]):
    """Topics by name."""

    def __init__(self, topics: Mapping[str, TopicImage], may_describe: Callable[[str], bool]) -> None:
        self._topics = topics
        self._may_describe = may_describe
        self._verdicts: dict[str, bool] = {}

    def is_visible(self, name: str) -> bool:
        """Whether the user may describe a topic."""
        verdict = self._verdicts.get(name)
        if verdict is None:
            verdict = self._verdicts[name] = self._may_describe(name)
        return verdict

    def __getitem__(self, name: str) -> TopicImage:
        topic = self._topics[name]
        if not self.is_visible(name):
            raise KeyError(name)
        return topic

    def __iter__(self) -> Iterator[str]:
        return filter(self.is_visible, self._topics)

    def __len__(self) -> int:
        return sum(map(self.is_visible, self._topics))


class VisibleNames(Mapping[UUID, str]):
    """Names of topics by id."""

    def __init__(self, names: Mapping[UUID, str], topics: VisibleTopics) -> None:
        self._names = names
        self._topics = topics

    def __getitem__(self, topic_id: UUID) -> str:
        name = self._names[topic_id]
        if not self._topics.is_visible(name):
            raise KeyError(topic_id)
        return name

    def __iter__(self) -> Iterator[UUID]:
        return (topic_id for topic_id, name in self._names.items() if self._topics.is_visible(name))

    def __len__(self) -> int:
        return sum(map(self._topics.is_visible, self._names.values()))

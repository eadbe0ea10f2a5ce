"""The topics that a user may describe: as a filtered copy of them would be, without a look at all of them."""

from __future__ import annotations

from uuid import UUID

import pytest

from tailrace.metadata.image import TopicImage
from tailrace_gateway.rest.access.visible_topics import VisibleNames, VisibleTopics

TOPICS = {f"t{number}": TopicImage(f"t{number}", UUID(int=number)) for number in range(10)}
NAMES = {topic.topic_id: name for name, topic in TOPICS.items()}
SEEN = {"t2", "t7", "none"}


class Asking:
    """Counts what is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, name: str) -> bool:
        self.asked.append(name)
        return name in SEEN


@pytest.fixture
def asking() -> Asking:
    return Asking()


def test_they_are_those_of_a_copy_that_was_filtered(asking: Asking) -> None:
    topics = VisibleTopics(TOPICS, asking)
    copy = {name: topic for name, topic in TOPICS.items() if name in SEEN}
    assert dict(topics) == copy == topics and len(topics) == 2
    assert [topics.get(name) for name in (*TOPICS, "none")] == [copy.get(name) for name in (*TOPICS, "none")]
    names = VisibleNames(NAMES, topics)
    assert dict(names) == {topic.topic_id: name for name, topic in copy.items()} and len(names) == 2
    assert names.get(UUID(int=2)) == "t2" and names.get(UUID(int=3)) is None and UUID(int=99) not in names


def test_each_topic_is_asked_for_once_and_one_by_itself_alone(asking: Asking) -> None:
    topics = VisibleTopics(TOPICS, asking)
    names = VisibleNames(NAMES, topics)
    assert topics.get("t3") is None and names.get(UUID(int=3)) is None and topics.get("none") is None
    assert asking.asked == ["t3"]
    assert len(topics) == len(names) == len(list(topics)) == 2
    assert sorted(asking.asked) == sorted(TOPICS)

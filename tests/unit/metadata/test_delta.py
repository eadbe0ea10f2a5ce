"""What two images of the cluster differ in."""

from uuid import UUID

import pytest

from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage, TopicImage

ONE, TWO = UUID(int=1), UUID(int=2)


def with_topics(**topics: UUID) -> MetadataImage:
    return MetadataImage(
        topics={name: TopicImage(name, topic_id, ()) for name, topic_id in topics.items()},
        topic_names={topic_id: name for name, topic_id in topics.items()},
    )


@pytest.mark.parametrize(
    ("old", "new", "deleted"),
    [
        (with_topics(t=ONE), with_topics(t=ONE), {}),
        (with_topics(), with_topics(t=ONE), {}),
        (with_topics(t=ONE, u=TWO), with_topics(u=TWO), {"t": ONE}),
        (with_topics(t=ONE), with_topics(t=TWO), {"t": ONE}),  # deleted, and created anew
    ],
)
def test_topics_are_deleted_by_their_ids(old: MetadataImage, new: MetadataImage, deleted: dict[str, UUID]) -> None:
    assert MetadataDelta(old, new).deleted_topics == deleted


def test_one_image_differs_in_nothing_from_itself() -> None:
    image = with_topics(t=ONE)
    assert MetadataDelta(image, image).deleted_topics == {}

"""What a coordinator serves before it is registered, and from then on."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from support.coordinator import INCARNATION, Stage, image, settle
from tailrace.metadata.image import MetadataImage
from tailrace_coordinator.membership import Membership


class Images:
    """Tells of every image it becomes."""

    def __init__(self) -> None:
        self.image = image()
        self.subscribers: list[Callable[[MetadataImage, MetadataImage], None]] = []

    def subscribe(self, callback: Callable[[MetadataImage, MetadataImage], None]) -> None:
        self.subscribers.append(callback)

    def become(self, new: MetadataImage) -> None:
        old, self.image = self.image, new
        for callback in self.subscribers:
            callback(old, new)


def joining(stage: Stage, incarnation_id: UUID = INCARNATION) -> tuple[Images, Membership]:
    images = Images()
    stage.coordinator.incarnation_id = None
    return images, Membership(stage.coordinator, images, stage.clock, incarnation_id)


async def test_shards_are_begun_when_the_image_shows_this_life() -> None:
    stage = Stage()
    images, membership = joining(stage)
    await settle()
    assert stage.log.epochs == []  # the image is of an earlier life
    membership.on_registered()
    await settle()
    assert stage.log.epochs == [1]
    assert membership.ready.is_set()
    images.become(image(shard_epoch=2))
    await settle()
    assert stage.log.epochs == [1, 2]
    await stage.coordinator.close()


async def test_with_the_controllers_away_the_shards_of_an_earlier_life_are_served() -> None:
    stage = Stage()
    _, membership = joining(stage)
    stage.clock.advance(2_999)
    await settle()
    assert stage.log.epochs == []
    stage.clock.advance(1)
    await settle()
    assert stage.log.epochs == [1]
    assert not membership.ready.is_set()
    await stage.coordinator.close()


async def test_a_registration_the_image_does_not_show_yet_ends_what_an_earlier_life_owned() -> None:
    stage = Stage()
    _, membership = joining(stage, UUID(int=123))
    stage.clock.advance(3_000)
    await settle()
    membership.on_registered()
    await settle()
    assert list(stage.coordinator.groups.machines()) == []
    await stage.coordinator.close()

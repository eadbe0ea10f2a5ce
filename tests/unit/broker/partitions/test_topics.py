"""Very many partitions in one image: others have their turn while a broker takes them up, and all is as it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

from support.broker import FollowerTwin, Running, batch, image, running
from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace.steps import Steps
from tailrace_broker.partitions.topics import Changes

FEW = 20
ALONE = PartitionImage((0,), (0,), 0, 0, 0)
FOLLOWED = PartitionImage((0, 1, 2), (0, 1, 2), 1, 0, 0)


def wide(rows: int, partition: PartitionImage) -> MetadataImage:
    """One topic of so many partitions."""
    return of(TopicImage("wide", UUID(int=100), (partition,) * rows))


def many(rows: int, partition: PartitionImage) -> MetadataImage:
    """So many topics of one partition."""
    return of(*(TopicImage(f"t{n}", UUID(int=100 + n), (partition,)) for n in range(rows)))


def of(*topics: TopicImage) -> MetadataImage:
    found = {topic.name: topic for topic in topics}
    return replace(
        image(), topics=found, topic_names={topic.topic_id: topic.name for topic in topics}, shards={}, configs={}
    )


def again(rows: int, partition: PartitionImage) -> MetadataImage:
    """Topics of the same names as those of `many`."""
    return of(*(TopicImage(f"t{n}", UUID(int=100_000 + n), (partition,)) for n in range(rows)))


def taken(node: Running, new: MetadataImage) -> Steps[None]:
    """What the follower has the broker do with the image."""
    follower: FollowerTwin = node.follower
    old, follower.image = follower.image, new
    return node.broker.publisher.on_image(old, new)


async def codes(node: Running, *names: str) -> list[int]:
    return [(await node.produce(0, batch(b"a"), name=name)).error_code for name in names]


async def test_a_partition_whose_turn_has_not_come_is_as_before_and_each_is_in_the_end(tmp_path: Path) -> None:
    """Topics are taken up in the order of the image; what waits is retried by clients, as after any new metadata."""
    last = f"t{FEW - 1}"
    async with running(tmp_path, of()) as node:
        steps = taken(node, many(FEW, ALONE))
        while b"t0" not in node.broker.topics.by_name:
            next(steps)
        assert await codes(node, "t0", last) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        for _ in steps:
            pass
        assert await codes(node, "t0", last) == [ErrorCode.NONE] * 2

        steps = taken(node, again(FEW, ALONE))  # all that are gone go first
        next(steps)
        assert await codes(node, "t0", last) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
        for _ in steps:
            pass
        found = [await node.produce(0, batch(b"a"), name=name) for name in ("t0", last)]
        assert [(row.error_code, row.base_offset) for row in found] == [(ErrorCode.NONE, 0)] * 2
        rows = node.broker.topics
        assert len(rows.by_name) == len(rows.by_id) == FEW
        assert all(row.image is node.follower.image.topics[row.image.name] for row in rows.by_id.values())


async def test_of_a_wide_topic_that_is_taken_up_the_rest_is_not_led_yet(tmp_path: Path) -> None:
    async with running(tmp_path, of()) as node:
        next(taken(node, wide(FEW, ALONE)))
        found = [(await node.produce(index, batch(b"a"), name="wide")).error_code for index in (0, FEW - 1, FEW)]
        assert found == [
            ErrorCode.NONE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]


async def test_a_fetch_that_waits_is_begun_anew_once_for_all_that_an_image_brings(tmp_path: Path) -> None:
    told: list[Changes] = []
    async with running(tmp_path, of()) as node:
        node.broker.publisher.subscribe(told.append)
        for _ in taken(node, wide(FEW, FOLLOWED)):
            pass
        assert len(told) == FEW + 1
        assert [changes.more for changes in told] == [True] * (len(told) - 1) + [False]
        assert [partition.index for changes in told for partition in changes.moved] == list(range(FEW))

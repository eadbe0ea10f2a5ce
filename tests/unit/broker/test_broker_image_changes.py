"""What one metadata image changes is found without a look into all that it leaves alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import UUID

from support.broker import Running, image, running
from support.steps import steps
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage, changed

FOLLOWED = PartitionImage((0, 1), (0, 1), 1, 0, 0)


def of(topics: int) -> MetadataImage:
    images = {f"t{n}": TopicImage(f"t{n}", UUID(int=100 + n), (FOLLOWED,)) for n in range(topics)}
    return replace(
        image(),
        topics=images,
        topic_names={topic.topic_id: name for name, topic in images.items()},
        shards={},
        configs={(2, name): {"retention.ms": "7"} for name in images},
    )


def test_what_is_another_object_or_gone_or_new_has_changed() -> None:
    same, other = ["kept"], ["kept"]
    assert changed({"a": same, "b": same, "c": same}, {"a": same, "b": other, "d": same}) == ["b", "d", "c"]
    one = {"a": same}
    assert changed(one, one) == []


async def followed(path: Path) -> AsyncIterator[tuple[Running, MetadataImage]]:
    """A broker that follows an image of 100 topics, and then one of 500."""
    async with running(path, of(0)) as node:
        for topics in (100, 500):
            metadata = of(topics)
            node.follower.move(topics=metadata.topics, topic_names=metadata.topic_names, configs=metadata.configs)
            yield node, metadata


async def test_a_topic_that_changes_costs_a_few_steps_for_each_that_does_not(tmp_path: Path) -> None:
    costs = []
    async for node, metadata in followed(tmp_path):
        other = replace(metadata.topics["t0"], partitions=(replace(FOLLOWED, partition_epoch=1),))
        costs.append(steps(partial(node.follower.move, topics={**metadata.topics, "t0": other})))
    assert costs[1] - costs[0] < 400 * 30


async def test_a_topics_configs_that_change_cost_a_few_steps_for_each_topic_whose_do_not(tmp_path: Path) -> None:
    costs = []
    async for node, metadata in followed(tmp_path):
        costs.append(steps(partial(node.follower.move, configs={**metadata.configs, (2, "t0"): {"retention.ms": "8"}})))
        assert node.broker.storage.topic_config("t0").retention_ms == 8
        assert node.broker.storage.topic_config("t1").retention_ms == 7
    assert costs[1] - costs[0] < 400 * 80

"""The partitions that a request names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from support.rest_backend import MemoryBackend, MemoryGroup
from tailrace.metadata.image import MetadataImage, PartitionImage
from tailrace_gateway.rest.errors import RestError
from tailrace_gateway.rest.groups import offset_resets
from tailrace_gateway.rest.groups.models import ResetWish
from tailrace_gateway.rest.topics.models import SomePartitions
from tailrace_gateway.rest.topics.named_partitions import named_partitions


class Partitions(tuple[PartitionImage, ...]):
    """Partitions that tell how often they were counted."""

    on_count: Callable[[], None]

    def __len__(self) -> int:
        self.on_count()
        return super().__len__()


class CountingBackend(MemoryBackend):
    """A cluster with the topic orders of three partitions; counts is how often they were counted."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = 0
        self.set_topic("orders", 3)

    def image(self) -> MetadataImage:
        image = super().image()
        topic = image.topics["orders"]
        partitions = Partitions(topic.partitions)
        partitions.on_count = self._count
        return replace(image, topics={"orders": replace(topic, partitions=partitions)})

    def _count(self) -> None:
        self.counts += 1


def test_a_topic_that_is_named_often_is_expanded_once() -> None:
    backend = CountingBackend()
    rows = [SomePartitions(topic_name="orders"), SomePartitions(topic_name="orders", partition_ids=[7])] * 500
    assert named_partitions(backend.image(), rows) == {("orders", index) for index in (0, 1, 2, 7)}
    assert backend.counts == 1


async def test_a_reset_that_names_a_topic_often_expands_it_once() -> None:
    backend = CountingBackend()
    backend.groups["g"] = MemoryGroup()
    wish = ResetWish(to="EARLIEST", topics=[SomePartitions(topic_name="orders")] * 500)
    rows = await offset_resets.reset(backend, "g", wish, 0)
    assert [(row.topic, row.partition) for row in rows] == [("orders", 0), ("orders", 1), ("orders", 2)]
    assert backend.counts < 50


def test_a_topic_that_does_not_exist_is_refused(backend: MemoryBackend) -> None:
    for ids in ([], [0]):
        with pytest.raises(RestError):
            named_partitions(backend.image(), [SomePartitions(topic_name="none", partition_ids=ids)])

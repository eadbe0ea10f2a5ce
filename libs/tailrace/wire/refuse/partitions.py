"""Answers of the shape topics, partitions, error code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Response = TypeVar("Response")


def by_partition(
    response: Callable[..., Response], topic: Any, partition: Any, index: str, **others: object
) -> Callable[[Any, int, int, str | None], Response]:
    """Builds answers of the shape topics -> partitions -> error_code; `index` names the partition's number.

    others: what every partition has besides; its message is the refusal's where it has one.
    """

    def build(request: Any, version: int, code: int, message: str | None) -> Response:
        topics = []
        texts = {"error_message": message} if "error_message" in partition.fields else {}
        for asked in request.topics or ():
            numbers = asked.partition_indexes if "partition_indexes" in asked.fields else map(_index, asked.partitions)
            partitions = [partition(**{index: number, "error_code": code, **texts, **others}) for number in numbers]
            names = {
                name: getattr(asked, name)
                for name in ("name", "topic", "topic_id")
                if name in topic.fields and name in asked.fields
            }
            topics.append(topic(**names, partitions=partitions))
        return response(topics=topics)

    return build


def _index(partition: Any) -> int:
    for name in ("partition_index", "partition"):
        if name in partition.fields:
            return int(getattr(partition, name))
    raise TypeError(f"{type(partition).__name__} has no partition number")

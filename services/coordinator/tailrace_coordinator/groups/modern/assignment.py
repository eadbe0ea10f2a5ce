"""Partitions by topic, as a member owns them and as records keep them (Kafka's Assignment)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias
from uuid import UUID

from tailrace.coordination.consumer_group_records import TopicPartitions
from tailrace_coordinator.groups.assignors.spec import Assignment

Owned: TypeAlias = Mapping[UUID, Mapping[int, int]]  # topic -> partition -> the epoch in which the member got it


def owned_of(rows: Iterable[TopicPartitions]) -> Owned:
    """Reads a record's partitions; epoch 0 where the record has none, so that no commit is refused for it."""
    return {
        topic_id: dict(zip(partitions, epochs or (0,) * len(partitions), strict=True))
        for topic_id, partitions, epochs in rows
    }


def owned_rows(owned: Owned) -> tuple[TopicPartitions, ...]:
    """Returns owned partitions as a record keeps them, with their epochs."""
    rows = []
    for topic_id, partitions in owned.items():
        indexes = tuple(sorted(partitions))
        rows.append(TopicPartitions(topic_id, indexes, tuple(partitions[index] for index in indexes)))
    return tuple(rows)


def target_of(rows: Iterable[TopicPartitions]) -> Assignment:
    """Reads a target assignment."""
    return {topic_id: frozenset(partitions) for topic_id, partitions, _ in rows}


def target_rows(target: Assignment) -> tuple[TopicPartitions, ...]:
    """Returns a target assignment as a record keeps it."""
    return tuple(TopicPartitions(topic_id, tuple(sorted(partitions))) for topic_id, partitions in target.items())


def is_part_of(reported: Assignment, owned: Owned) -> bool:
    """Whether every partition that is reported is owned."""
    return all(topic_id in owned and partitions <= owned[topic_id].keys() for topic_id, partitions in reported.items())

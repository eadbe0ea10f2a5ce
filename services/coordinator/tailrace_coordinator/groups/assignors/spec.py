"""The input and the answer of an assignor (GroupSpec, SubscribedTopicDescriber and GroupAssignment in Kafka)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

Assignment = Mapping[UUID, frozenset[int]]  # partitions by topic; no topic without partitions
GroupAssignment = Mapping[str, Assignment]  # by member id; every member of the group is there


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member: the topics that it subscribes to, and the partitions of its present target assignment."""

    subscribed: frozenset[UUID]
    rack_id: str | None = None
    instance_id: str | None = None
    assigned: Assignment = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic: its number of partitions, and for each partition the racks of its replicas."""

    partitions: int
    racks: Sequence[frozenset[str]] = ()


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The members by id, and the topics by id. A topic that is not there has no partitions."""

    members: Mapping[str, MemberSpec]
    topics: Mapping[UUID, TopicSpec]


Assignor = Callable[[GroupSpec], GroupAssignment]

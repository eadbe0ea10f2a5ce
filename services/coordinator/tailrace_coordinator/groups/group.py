"""Groups of every kind by their ids, and the questions that each of them answers (Kafka's Group)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple, TypeVar
from uuid import UUID

from tailrace.coordination.group_records import GroupRecord, OffsetCommitted
from tailrace_coordinator.groups.decision import GroupDecision, TimerKey


class GroupType(StrEnum):
    """Kafka's names, as ListGroups spells them from v5 on (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """One member; metadata is empty while the group has no agreed protocol."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group as DescribeGroups shows it; protocol is empty unless the group is stable."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class Leaver:
    """One member that goes, or an instance that an administrator removes without knowing its member id (KIP-345)."""

    member_id: str
    group_instance_id: str | None = None


class Committer(NamedTuple):
    """Who commits offsets; generation -1 and no member: a standalone consumer or an admin.

    generation_id is a member epoch where the group is of the consumer protocol.
    """

    member_id: str
    group_instance_id: str | None
    generation_id: int
    in_transaction: bool
    api_version: int

    @property
    def by_epoch(self) -> bool:
        """Whether the version has errors of member epochs: OffsetCommit 9 (KIP-848), TxnOffsetCommit 6 (KIP-1319)."""
        return self.api_version >= (6 if self.in_transaction else 9)


class Group(ABC):
    """One group. Its offsets are kept apart from it (`offsets.py`); how members join depends on the kind."""

    __slots__ = ("group_id",)

    group_type: ClassVar[GroupType]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    @property
    @abstractmethod
    def state(self) -> str:
        """Kafka's name of it; "Empty" where there is no member."""

    @property
    @abstractmethod
    def shown_protocol_type(self) -> str:
        """What its members speak, empty for a group that has only offsets."""

    @property
    @abstractmethod
    def member_count(self) -> int:
        """How many members it has."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether it has no members."""

    @property
    @abstractmethod
    def is_disused(self) -> bool:
        """Whether it has no members and none are about to join: it goes with its last offset."""

    @abstractmethod
    def describe(self) -> GroupDescription:
        """Returns the group as clients of DescribeGroups see it."""

    def listed(self) -> Listed:
        """Returns its line of ListGroups."""
        return Listed(self.group_id, self.shown_protocol_type, str(self.state), self.group_type.value)

    @abstractmethod
    def validate_offset_commit(
        self, decision: GroupDecision, who: Committer, partitions: Iterable[tuple[UUID | None, int]]
    ) -> None:
        """Refuses those who may not commit for these; a classic member's commit is a sign of life. Raises ApiError.

        In a transaction (KIP-447) also a producer that does not say whose offsets it commits: what fences that one is
        its transactional id.
        """

    @abstractmethod
    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuses a member that is not one, or that has another epoch; None and -1: an admin. Raises ApiError."""

    @abstractmethod
    def validate_offset_delete(self) -> None:
        """Refuses where living members may read any topic (KIP-496). Raises ApiError."""

    @abstractmethod
    def validate_delete(self) -> None:
        """Refuses while it has members. Raises ApiError."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic; where that is not known, whether one may."""

    @abstractmethod
    def retention_begins_ms(self, offset: OffsetCommitted) -> int | None:
        """From when offsets.retention.minutes counts (KIP-211); None: the offset does not expire now."""

    @abstractmethod
    def tombstones(self) -> Sequence[GroupRecord]:
        """All that ends the group in the log, in the order in which Kafka loads it."""

    @abstractmethod
    def on_loaded(self, decision: GroupDecision) -> None:
        """Begins the deadlines of a group that was read from the log."""

    def on_topics_changed(self, names: AbstractSet[str]) -> None:
        """Notes that topics came, went, or have other partitions, where the group is assigned on the server."""
        return

    @abstractmethod
    def timer_keys(self) -> Sequence[TimerKey]:
        """Every deadline that it may have."""


_Kind = TypeVar("_Kind", bound=Group)


class Groups(dict[str, Group]):
    """The groups of one shard by id. An id belongs to one group at a time, of any kind."""

    __slots__ = ()

    def of_kind(self, kind: type[_Kind], group_id: str) -> _Kind | None:
        """Returns the group, None where there is none of that kind."""
        group = self.get(group_id)
        return group if isinstance(group, kind) else None

    def make(self, kind: type[_Kind], group_id: str) -> _Kind:
        """Returns the group; makes one of that kind where there is none of it, in place of one of another."""
        group = self.of_kind(kind, group_id)
        if group is None:
            group = self[group_id] = kind(group_id)
        return group

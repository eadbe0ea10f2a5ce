"""One member's way from what it owns to its target assignment (Kafka's CurrentAssignmentBuilder).

A member gives up partitions before the group gives it any, and gets only partitions that no other member owns. Until it
has given up what it must it stays in its epoch, so that it may still commit offsets for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from tailrace.errors import ApiError, ErrorCode
from tailrace_coordinator.groups.assignors.spec import Assignment
from tailrace_coordinator.groups.modern.assignment import Owned

_NONE: Final[Owned] = MappingProxyType({})
_NO_PARTITIONS: Final[Mapping[int, int]] = MappingProxyType({})


class MemberState(IntEnum):
    """Kafka's MemberState, as records number it."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class Current(NamedTuple):
    """What a member owns, and its epoch. A member that is told of an epoch may ask with the one before."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = MemberState.STABLE
    assigned: Owned = _NONE
    pending_revocation: Owned = _NONE

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state == MemberState.STABLE and self.member_epoch == epoch

    def partitions(self) -> Iterator[tuple[UUID, int]]:
        """Yields every partition that no other member may have."""
        for owned in (self.assigned, self.pending_revocation):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    yield topic_id, partition


class Target(NamedTuple):
    """Where a member is to come: its part of the target assignment, as far as it subscribes to the topics.

    is_free: whether no member owns the partition.
    """

    epoch: int
    assignment: Assignment
    is_subscribed: Callable[[UUID], bool]
    is_free: Callable[[UUID, int], bool]

    def of(self, topic_id: UUID) -> frozenset[int]:
        partitions = self.assignment.get(topic_id)
        return partitions if partitions and self.is_subscribed(topic_id) else frozenset()


def validate_state(current: Current, reported: Assignment | None) -> None:
    """Fences a member in a state that a newer version wrote, unless it owns nothing.

    reported: what it says that it owns; None: it did not say. Raises ApiError FENCED_MEMBER_EPOCH.
    """
    is_known = current.state in (
        MemberState.STABLE,
        MemberState.UNREVOKED_PARTITIONS,
        MemberState.UNRELEASED_PARTITIONS,
    )
    if not is_known and (reported is None or reported):
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )


def reconcile(
    current: Current, target: Target, reported: Assignment | None, *, subscription_changed: bool = False
) -> Current:
    """Returns what a member whose state is valid owns next."""
    match current.state:
        case MemberState.STABLE if current.member_epoch == target.epoch:
            return _without_unsubscribed(current, target, reported) if subscription_changed else current
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_owns(reported, current.pending_revocation):
                return _without_unsubscribed(current, target, reported) if subscription_changed else current
            return _next(current, current.member_epoch, target, reported)
        case MemberState.STABLE | MemberState.UNRELEASED_PARTITIONS:
            return _next(current, current.member_epoch, target, reported)
        case _:
            return _next(current, target.epoch, target, reported)


def _still_owns(reported: Assignment | None, revoked: Owned) -> bool:
    if reported is None:
        return True
    return any(
        not partitions.isdisjoint(revoked[topic_id]) for topic_id, partitions in reported.items() if topic_id in revoked
    )


def _without_unsubscribed(current: Current, target: Target, reported: Assignment | None) -> Current:
    """Takes partitions back of topics that the member gave up, before the next target assignment says so."""
    kept = {topic_id: owned for topic_id, owned in current.assigned.items() if target.is_subscribed(topic_id)}
    left = {topic_id: owned for topic_id, owned in current.assigned.items() if topic_id not in kept}
    if not left:
        return current
    revoked = dict(current.pending_revocation)
    for topic_id, owned in left.items():
        revoked[topic_id] = {**revoked.get(topic_id, _NO_PARTITIONS), **owned}
    state = MemberState.UNREVOKED_PARTITIONS
    if not _still_owns(reported, revoked):
        state, revoked = MemberState.STABLE, dict(_NONE)
    return Current(current.member_epoch, current.member_epoch, state, kept, revoked)


def _next(current: Current, member_epoch: int, target: Target, reported: Assignment | None) -> Current:
    kept: dict[UUID, dict[int, int]] = {}
    revoked: dict[UUID, dict[int, int]] = {}
    for topic_id, owned in current.assigned.items():
        wanted = target.of(topic_id)
        for partition, epoch in owned.items():
            (kept if partition in wanted else revoked).setdefault(topic_id, {})[partition] = epoch
    if revoked and _still_owns(reported, revoked):
        state = MemberState.UNREVOKED_PARTITIONS
        return Current(member_epoch, current.member_epoch, state, kept, revoked)
    is_unreleased = False
    for topic_id in target.assignment:
        own = current.pending_revocation.get(topic_id, _NO_PARTITIONS)
        for partition in target.of(topic_id) - kept.get(topic_id, {}).keys():
            if partition in own or target.is_free(topic_id, partition):
                kept.setdefault(topic_id, {})[partition] = target.epoch
            else:
                is_unreleased = True
    state = MemberState.UNRELEASED_PARTITIONS if is_unreleased else MemberState.STABLE
    if is_unreleased and kept == current.assigned and (member_epoch, state) == (target.epoch, current.state):
        return current  # it waits on
    return Current(target.epoch, current.member_epoch, state, kept, _NONE)

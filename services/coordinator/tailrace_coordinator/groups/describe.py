"""What DescribeGroups, ListGroups and the controller's SQL views show of a group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tailrace_coordinator.groups.classic.group import ClassicGroup, GroupState, Member
from tailrace_coordinator.groups.consumer_protocol import PROTOCOL_TYPE

CLASSIC, CONSUMER = "classic", "consumer"


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
class Described:
    """One group; protocol is empty unless the group is stable."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = CLASSIC


def describe(group: ClassicGroup) -> Described:
    """Returns the group as clients see it."""
    stable = group.state is GroupState.STABLE
    protocol = (group.protocol_name or "") if stable else ""
    return Described(
        group.group_id,
        str(group.state),
        protocol_type(group),
        protocol,
        tuple(_described(member, protocol if stable else None) for member in group.members.values()),
    )


def _described(member: Member, protocol: str | None) -> DescribedMember:
    return DescribedMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.metadata(protocol),
        member.assignment,
    )


def list_groups(
    groups: Mapping[str, ClassicGroup], states: frozenset[str], types: frozenset[str]
) -> tuple[Listed, ...]:
    """Returns the groups in one of the states (KIP-518) and types (KIP-848), lower case; an empty filter takes all."""
    return tuple(
        Listed(group.group_id, protocol_type(group), str(group.state), group_type(group))
        for group in groups.values()
        if (not states or group.state.lower() in states) and (not types or group_type(group) in types)
    )


def group_type(group: ClassicGroup) -> str:
    """Returns Kafka's word: an imported KIP-848 group is one until a member joins it, which is a classic one here."""
    return CONSUMER if group.is_consumer else CLASSIC


def protocol_type(group: ClassicGroup) -> str:
    """Returns what its members speak, empty for a group that has only offsets."""
    return PROTOCOL_TYPE if group.is_consumer else group.protocol_type or ""

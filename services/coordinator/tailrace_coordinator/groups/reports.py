"""What metrics and the controller's SQL views show of groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tailrace_coordinator.groups.classic.group import GroupState
from tailrace_coordinator.groups.group import Group, GroupType
from tailrace_coordinator.groups.machine import GroupMachine
from tailrace_coordinator.shards.kind import Gauge, Report

_STATES: Final = {
    GroupType.CLASSIC: tuple(state.value for state in GroupState if state is not GroupState.DEAD),
    GroupType.CONSUMER: ("Empty", "Assigning", "Reconciling", "Stable"),
}


def group_gauges(machines: Sequence[GroupMachine]) -> Iterable[Gauge]:
    """Counts groups, members and offsets; a state without groups is 0."""
    groups = [group for machine in machines for group in machine.groups.values()]
    counts = Counter((group.group_type, str(group.state)) for group in groups)
    for kind, states in _STATES.items():
        for state in states:
            labels = {"state": state, "type": kind.value}
            yield Gauge("groups", "Groups by type and state", counts[kind, state], labels)
    yield Gauge("members", "Members of all groups", sum(group.member_count for group in groups))
    yield Gauge("offsets", "Committed offsets", sum(len(machine.offsets) for machine in machines))


def _row(group: Group) -> dict[str, object]:
    return {
        "group_id": group.group_id,
        "state": str(group.state),
        "type": group.group_type.value,
        "members": group.member_count,
    }


GROUP_REPORTS: Final[Mapping[str, Report]] = {
    "groups": Report(lambda machine: machine.groups.values(), _row, ("group_id",))
}

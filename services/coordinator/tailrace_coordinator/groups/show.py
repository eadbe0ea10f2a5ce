"""What metrics and the controller's SQL views show of groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tailrace_coordinator.groups.classic.group import ClassicGroup, GroupState
from tailrace_coordinator.groups.describe import group_type
from tailrace_coordinator.groups.machine import GroupMachine
from tailrace_coordinator.shards.kind import Gauge, Report

_STATES: Final = tuple(state for state in GroupState if state is not GroupState.DEAD)


def group_gauges(machines: Sequence[GroupMachine]) -> Iterable[Gauge]:
    """Counts groups, members and offsets; a state without groups is 0."""
    groups = [group for machine in machines for group in machine.groups.values()]
    states = Counter(group.state for group in groups)
    for state in _STATES:
        yield Gauge("group_count", "Groups by state", states[state], {"state": state.value})
    yield Gauge("member_count", "Members of all groups", sum(len(group.members) for group in groups))
    yield Gauge("offset_count", "Committed offsets", sum(len(machine.offsets) for machine in machines))


def _row(group: ClassicGroup) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "state": group.state.value,
        "type": group_type(group),
        "members": len(group.members),
    }


GROUP_REPORTS: Final[Mapping[str, Report]] = {"groups": Report(lambda machine: machine.groups.values(), _row)}

"""The uniform assignor: as equal numbers of partitions as the subscriptions allow; members keep what they can.

Balance comes before stickiness, as in Kafka's UniformAssignor.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailrace_coordinator.groups.assignors.balance import Balance
from tailrace_coordinator.groups.assignors.draft import Draft, by_turns
from tailrace_coordinator.groups.assignors.spec import GroupAssignment, GroupSpec
from tailrace_coordinator.groups.assignors.subscriptions import Subscriptions


def assign(spec: GroupSpec) -> GroupAssignment:
    """The partitions of each member. No assignment with more equal numbers exists."""
    subscriptions = Subscriptions(spec)
    draft = Draft(spec, subscriptions)
    kinds = set(subscriptions.subscribers)
    if len(kinds) == 1:
        _share(draft, sum(subscriptions.counts), kinds.pop())
    elif kinds:
        _balance(draft, subscriptions)
    return draft.assignment()


def _share(draft: Draft, total: int, members: Iterable[int]) -> None:
    """Gives equal numbers to members with the same topics: the larger shares to those that have most now."""
    loads = {member: sum(map(len, draft.held[member].values())) for member in sorted(members)}
    least, larger = divmod(total, len(loads))
    by_load = sorted(loads, key=lambda member: -loads[member])
    missing = {member: least + (rank < larger) - loads[member] for rank, member in enumerate(by_load)}
    for member, count in missing.items():
        if count < 0:
            draft.take(member, -count)
    takers = by_turns(dict(sorted(missing.items())))
    for topic in range(len(draft.free)):
        draft.deal(topic, takers)


def _balance(draft: Draft, subscriptions: Subscriptions) -> None:
    """Gives numbers as equal as different subscriptions allow."""
    numbers = subscriptions.numbers
    present = [{numbers[id]: len(partitions) for id, partitions in row.items()} for row in draft.held]
    balance = Balance(present, subscriptions.subscribers)
    balance.fill([len(free) for free in draft.free])
    balance.level()
    balance.settle()
    for topic, changes in enumerate(balance.changes()):
        for member, change in changes.items():
            if change < 0:
                draft.take_of(member, topic, -change)
        draft.deal(topic, by_turns(changes))

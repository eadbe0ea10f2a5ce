"""What a classic group counts along: a group may have 10,000 members, and each of them asks."""

from collections import Counter
from collections.abc import ValuesView
from random import Random
from typing import NoReturn

import pytest

from support.groups import Driver, subscription
from tailrace_coordinator.groups.classic.group import ClassicGroup, GroupState
from tailrace_coordinator.groups.classic.member import Member
from tailrace_coordinator.groups.config import GroupConfig


class Unseen(dict[str, Member]):
    """Members of whom each may be found, and not all looked at."""

    def values(self) -> NoReturn:
        raise AssertionError("all members were looked at")


def counted(group: ClassicGroup) -> tuple[int, bool]:
    members: ValuesView[Member] = group.members.values()
    waiting = [member for member in members if member.awaiting_join is not None]
    return len(waiting), not group.pending_members and len(waiting) == len(members)


def assert_what_members_say_is_counted(group: ClassicGroup) -> None:
    members = list(group.members.values())
    assert group.speakers == Counter(name for member in members for name, _ in member.protocols)
    assert all(group.speakers.values()), "names that nobody says any more would gather"
    assert group.metadata_size_bytes == sum(member.metadata_size_bytes for member in members)
    instances = {m.group_instance_id: m.member_id for m in members if m.group_instance_id is not None}
    assert group.static_members == instances
    if group.state is GroupState.STABLE:
        topics = group.subscribed_topics
        group.known_topics_of = None
        group.learn_subscribed_topics()
        assert group.subscribed_topics == topics


def test_who_joins_while_others_are_awaited_costs_no_look_at_all_members() -> None:
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=3_000))
    ids = [driver.joined()[0] for _ in range(20)]
    driver.advance(6_000)
    group = driver.classic("g")
    leader, *others = [group.leader or "", *(member_id for member_id in ids if member_id != group.leader)]
    driver.sync("g", leader, group.generation_id)
    driver.join(member_id=leader)  # a leader's JoinGroup begins a rebalance
    group.members = Unseen(group.members)
    for member_id in others[:-1]:
        driver.join(member_id=member_id)
    assert (group.state, group.awaiting_join_count) == (GroupState.PREPARING_REBALANCE, 19)


@pytest.mark.parametrize("seed", range(20))
def test_those_who_wait_are_counted_whatever_happens(seed: int) -> None:
    chance, driver = Random(seed), Driver()
    ids, seen = [""], set[int]()
    for _ in range(150):
        instance = chance.choice((None, None, "one", "two"))
        version = chance.choice((3, 9))
        match chance.randrange(6):
            case 0 | 1 | 2:
                topic = subscription(chance.choice(("t", "u")))
                protocols = chance.choice(([("range", topic)], [("range", b"b")], [("range", topic), ("sticky", b"")]))
                token = driver.join("g", chance.choice(ids), protocols, version=version, instance=instance)
                if (answer := driver.answers.get(token)) is not None and answer.member_id:
                    ids.append(answer.member_id)
            case 3:
                driver.advance(chance.choice((0, 10, 3_000, 70_000)))
            case 4 if "g" in driver.machine.groups:
                group = driver.classic("g")
                member_id = chance.choice([group.leader or "", *group.members])
                driver.sync("g", member_id, group.generation_id, dict.fromkeys(group.members, b"x"))
            case 5 if len(ids) > 1 and chance.random() < 0.2:
                driver = driver.reloaded()
        if "g" in driver.machine.groups:
            group = driver.classic("g")
            ids += [member_id for member_id in group.members if member_id not in ids]
            seen.add(group.awaiting_join_count)
            assert (group.awaiting_join_count, group.all_members_joined) == counted(group)
            assert_what_members_say_is_counted(group)
    assert len(seen) > 1

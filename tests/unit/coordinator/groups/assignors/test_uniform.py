"""The uniform assignor: each partition has one owner, numbers are as equal as they can be, and little moves."""

from __future__ import annotations

from collections import deque
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.assignors.histories import Shape, history, topic_id, with_assigned
from support.assignors.measures import complaints, loads, moved
from tailrace_coordinator.groups.assignors import uniform
from tailrace_coordinator.groups.assignors.spec import GroupAssignment, GroupSpec, MemberSpec, TopicSpec

SHAPES = st.builds(Shape, st.integers(1, 8), st.integers(1, 5), st.integers(1, 12), st.booleans())


def has_shorter_chain(spec: GroupSpec, assigned: GroupAssignment) -> bool:
    """Whether moves lead from a member to one with two partitions less; then the numbers could be more equal."""
    load = {id: sum(map(len, topics.values())) for id, topics in assigned.items()}
    for source, count in load.items():
        line, reached = deque([source]), {source}
        while line:
            for topic in assigned[line.popleft()]:
                for other, member in spec.members.items():
                    if topic in member.subscribed and other not in reached:
                        reached.add(other)
                        line.append(other)
        if any(load[other] <= count - 2 for other in reached):
            return True
    return False


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False), SHAPES)
def test_each_partition_has_one_owner_and_numbers_are_as_equal_as_they_can_be(rng: Random, shape: Shape) -> None:
    assigned: GroupAssignment = {}
    for _, group in history(rng, shape, steps=8):
        spec = with_assigned(group, assigned)
        assigned = uniform.assign(spec)
        assert complaints(spec, assigned) == []
        assert not has_shorter_chain(spec, assigned)
        if shape.alike:
            assert max(loads(spec, assigned)) - min(loads(spec, assigned)) <= 1


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False), SHAPES)
def test_nothing_moves_when_nothing_has_changed(rng: Random, shape: Shape) -> None:
    assigned: GroupAssignment = {}
    for _, group in history(rng, shape, steps=8):
        assigned = uniform.assign(with_assigned(group, assigned))
        assert uniform.assign(with_assigned(group, assigned)) == assigned


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 8), st.integers(1, 5), st.integers(1, 12))
def test_members_with_one_subscription_keep_all_that_their_shares_allow(
    rng: Random, members: int, topics: int, partitions: int
) -> None:
    assigned: GroupAssignment = {}
    for _, group in history(rng, Shape(members, topics, partitions, alike=True), steps=8):
        spec = with_assigned(group, assigned)
        assigned = uniform.assign(spec)
        total = sum(topic.partitions for topic in spec.topics.values())
        least, larger = divmod(total, len(spec.members))
        before = [sum(map(len, member.assigned.values())) for member in spec.members.values()]
        kept = sum(min(count, least) for count in before) + min(larger, sum(count > least for count in before))
        assert moved(spec, assigned) == total - kept


A, B = topic_id(0), topic_id(1)


def group(*subscribed: frozenset[UUID], partitions: int = 4) -> GroupSpec:
    members = {f"m{number}": MemberSpec(topics) for number, topics in enumerate(subscribed)}
    return GroupSpec(members, {A: TopicSpec(partitions), B: TopicSpec(partitions)})


def test_partitions_of_a_topic_are_with_many_members() -> None:
    assigned = uniform.assign(group(frozenset({A, B}), frozenset({A, B})))
    assert assigned == {"m0": {A: {0, 2}, B: {0, 2}}, "m1": {A: {1, 3}, B: {1, 3}}}


def test_a_member_with_one_topic_has_more_of_it() -> None:
    assigned = uniform.assign(group(frozenset({A}), frozenset({A, B})))
    assert {id: {topic: len(held) for topic, held in topics.items()} for id, topics in assigned.items()} == {
        "m0": {A: 4},
        "m1": {B: 4},
    }


@pytest.mark.parametrize("subscribed", [frozenset[UUID](), frozenset({topic_id(9)})])
def test_members_without_topics_have_no_partitions(subscribed: frozenset[UUID]) -> None:
    assert uniform.assign(group(subscribed, frozenset({A}))) == {"m0": {}, "m1": {A: {0, 1, 2, 3}}}
    assert uniform.assign(group(subscribed)) == {"m0": {}}


def test_a_group_without_members_has_no_assignment() -> None:
    assert uniform.assign(group()) == {}


def test_what_two_members_have_stays_with_one() -> None:
    both = {id: MemberSpec(frozenset({A}), assigned={A: frozenset({0, 9})}) for id in ("m0", "m1")}
    assigned = uniform.assign(GroupSpec(both, {A: TopicSpec(2)}))
    assert assigned == {"m0": {A: {0}}, "m1": {A: {1}}}


def test_a_large_new_topic_moves_no_more_than_it_must() -> None:
    """All of the old topic goes to the members that do not subscribe to the new one."""
    members = {f"m{number}": MemberSpec(frozenset({A})) for number in range(20)}
    assigned = uniform.assign(GroupSpec(members, {A: TopicSpec(400)}))
    members |= {id: MemberSpec(frozenset({A, B})) for id in list(members)[:10]}
    spec = with_assigned(GroupSpec(members, {A: TopicSpec(400), B: TopicSpec(400)}), assigned)
    assigned = uniform.assign(spec)
    assert complaints(spec, assigned) == []
    assert loads(spec, assigned) == [40] * 20
    assert moved(spec, assigned) == 400 + 200


def test_a_member_that_nothing_changes_keeps_its_assignment_as_the_same_object() -> None:
    members = {f"m{number}": MemberSpec(frozenset({A})) for number in range(4)}
    assigned = uniform.assign(GroupSpec(members, {A: TopicSpec(8)}))
    members["m9"] = MemberSpec(frozenset({A}))
    spec = with_assigned(GroupSpec(members, {A: TopicSpec(8)}), assigned)
    same = [id for id, held in uniform.assign(spec).items() if held is spec.members[id].assigned]
    assert len(same) == 3

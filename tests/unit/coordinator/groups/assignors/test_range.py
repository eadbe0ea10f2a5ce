"""The range assignor: ranges at first, equal numbers of each topic, partitions with one number at one member."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from support.assignors.histories import Shape, history, topic_id, with_assigned
from support.assignors.measures import complaints, moved
from tailrace_coordinator.groups.assignors import range as by_range
from tailrace_coordinator.groups.assignors.spec import GroupAssignment, GroupSpec, MemberSpec, TopicSpec

SHAPES = st.builds(Shape, st.integers(1, 8), st.integers(1, 5), st.integers(1, 12), st.booleans())
A, B = topic_id(0), topic_id(1)


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False), SHAPES)
def test_each_partition_has_one_owner_and_each_topic_equal_numbers(rng: Random, shape: Shape) -> None:
    assigned: GroupAssignment = {}
    for _, group in history(rng, shape, steps=8):
        spec = with_assigned(group, assigned)
        assigned = by_range.assign(spec)
        assert complaints(spec, assigned) == []
        for topic in spec.topics:
            subscribed = [id for id, member in spec.members.items() if topic in member.subscribed]
            numbers = [len(assigned[id].get(topic, ())) for id in subscribed]
            assert not numbers or max(numbers) - min(numbers) <= 1
        for topic, other in [(topic, other) for topic in spec.topics for other in spec.topics]:
            same = all((topic in m.subscribed) == (other in m.subscribed) for m in spec.members.values())
            if same and spec.topics[topic] == spec.topics[other]:
                assert all(topics.get(topic) == topics.get(other) for topics in assigned.values())
        assert moved(with_assigned(group, assigned), by_range.assign(with_assigned(group, assigned))) == 0


def test_the_first_assignment_gives_ranges_in_the_order_of_instance_ids_and_member_ids() -> None:
    both = frozenset({A, B})
    members = {"z": MemberSpec(both), "a": MemberSpec(both), "m": MemberSpec(both, instance_id="one")}
    assigned = by_range.assign(GroupSpec(members, {A: TopicSpec(7), B: TopicSpec(7)}))
    assert assigned["m"] == {A: {0, 1, 2}, B: {0, 1, 2}}
    assert assigned["a"] == {A: {3, 4}, B: {3, 4}}
    assert assigned["z"] == {A: {5, 6}, B: {5, 6}}


def test_a_new_member_takes_only_its_share() -> None:
    members = {f"m{number}": MemberSpec(frozenset({A})) for number in range(3)}
    first = by_range.assign(GroupSpec(members, {A: TopicSpec(12)}))
    members["a"] = MemberSpec(frozenset({A}))
    spec = with_assigned(GroupSpec(members, {A: TopicSpec(12)}), first)
    assert moved(spec, by_range.assign(spec)) == 3


def test_larger_shares_go_to_members_with_less() -> None:
    members = {"m0": MemberSpec(frozenset({A, B})), "m1": MemberSpec(frozenset({A, B}))}
    assigned = by_range.assign(GroupSpec(members, {A: TopicSpec(3), B: TopicSpec(5)}))
    assert [sum(map(len, topics.values())) for topics in assigned.values()] == [4, 4]


def test_a_larger_share_stays_with_the_member_that_has_fewer_partitions() -> None:
    """Two members have more than the equal share of a topic; one of them has another topic, too."""
    members = {
        "m0": MemberSpec(frozenset({A, B}), assigned={A: frozenset({0, 1, 2, 3}), B: frozenset({0, 1})}),
        "m1": MemberSpec(frozenset({A}), assigned={A: frozenset({4, 5, 6})}),
        "m2": MemberSpec(frozenset({A})),
    }
    assigned = by_range.assign(GroupSpec(members, {A: TopicSpec(7), B: TopicSpec(2)}))
    assert assigned == {"m0": {A: {0, 1}, B: {0, 1}}, "m1": {A: {4, 5, 6}}, "m2": {A: {2, 3}}}

"""The assignment that the leading member makes, beside kafka-python's range assignor."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tailrace.kafka.consumer_protocol import partitions_of
from tailrace.reading.assignment import Subscriber, assign

TOPICS = ["a", "b", "c"]
MEMBERS = st.builds(Subscriber, st.text(max_size=3), st.none() | st.text(max_size=2), st.sets(st.sampled_from(TOPICS)))


class Topics(dict[str, int]):
    def partitions_for_topic(self, topic: str) -> Any:
        return set(range(self[topic])) if topic in self else None


class Member(NamedTuple):
    member_id: str
    group_instance_id: str | None
    metadata: Subscriber


@given(
    st.lists(MEMBERS, min_size=1, max_size=6, unique_by=lambda member: member.member_id),
    st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9)),
)
def test_members_get_what_the_range_assignor_of_a_library_gives(
    members: list[Subscriber], counts: dict[str, int]
) -> None:
    peers = [Member(member.member_id, member.instance_id, member) for member in members]
    library = RangePartitionAssignor.assign(
        Topics(counts), sorted(peers, key=lambda peer: peer.group_instance_id is None)
    )
    expected = {member_id: partitions_of(bytes(share.encode(version=0))) for member_id, share in library.items()}
    assert assign(members, counts) == expected

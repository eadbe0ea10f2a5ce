"""Groups on the wire: what the client libraries never send, or hide."""

import pytest

from compat.version_table import commit_request
from support.raw import Raw, build
from support.stage import coordinator, create_topic, join_request, joined, unique
from support.targets import Target
from support.waiting import until

OFFSET_METADATA_TOO_LARGE, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL = 12, 22, 23
UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED, FENCED_INSTANCE_ID = 25, 27, 79, 82


def heartbeat(connection: Raw, group: str, member_id: str, generation_id: int) -> int:
    request = build(12, group_id=group, generation_id=generation_id, member_id=member_id)
    return int(connection.ask(request, 3).error_code)


@pytest.mark.capability("groups: MEMBER_ID_REQUIRED (KIP-394), from JoinGroup v4")
def test_a_new_member_is_asked_to_come_again_with_its_id(target: Target) -> None:
    group = unique("group")
    with target.raw(coordinator(target, group)) as connection:
        first = connection.ask(join_request(group), 4)
        assert (first.error_code, first.generation_id) == (MEMBER_ID_REQUIRED, -1)
        assert first.member_id
        second = connection.ask(join_request(group, member_id=first.member_id), 4)
        assert (second.error_code, second.leader) == (0, first.member_id)
        old_style = connection.ask(join_request(unique("group")), 3) if target.brokers == 1 else None
        assert old_style is None or old_style.error_code == 0


@pytest.mark.capability("groups: a commit of an old generation or an unknown member is refused")
def test_only_the_current_generation_commits(target: Target) -> None:
    topic, member = create_topic(target), joined(target, unique("group"))
    with member.connection as connection:

        def commit(generation_id: int, member_id: str) -> int:
            fields = {"generation_id_or_member_epoch": generation_id, "member_id": member_id}
            answer = connection.ask(commit_request(member.group, topic, 7, **fields), 7)
            return int(answer.topics[0].partitions[0].error_code)

        assert commit(1, member.member_id) == 0
        assert commit(2, member.member_id) == ILLEGAL_GENERATION
        assert commit(1, "nobody") == UNKNOWN_MEMBER_ID
        assert commit(-1, "") == UNKNOWN_MEMBER_ID  # a group with members takes no simple commits


@pytest.mark.capability("groups: commit metadata has a limit")
def test_too_much_commit_metadata_is_refused(target: Target) -> None:
    topic, group = create_topic(target), unique("group")
    partition = {"partition_index": 0, "committed_offset": 2, "committed_metadata": "x" * 5000}
    topics = [{"name": topic.name, "partitions": [partition]}]
    request = build(8, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics)
    answer = target.ask(request, 7, coordinator(target, group))
    assert answer.topics[0].partitions[0].error_code == OFFSET_METADATA_TOO_LARGE


@pytest.mark.capability("groups of three members: join, leave")
def test_a_second_member_starts_a_rebalance_that_the_first_hears_of(target: Target) -> None:
    first = joined(target, unique("group"))
    with first.connection, target.raw(coordinator(target, first.group)) as other:
        asked = other.ask(join_request(first.group), 5)
        waiting = other.send(join_request(first.group, member_id=asked.member_id), 5)
        alert = lambda: heartbeat(first.connection, first.group, first.member_id, 1) == REBALANCE_IN_PROGRESS  # noqa: E731
        until(alert, "the rebalance")
        again = first.connection.ask(join_request(first.group, member_id=first.member_id), 5)
        second = other.receive(11, 5, waiting)
        assert (again.error_code, again.generation_id, again.leader) == (0, 2, first.member_id)
        assert (second.error_code, second.generation_id, second.members) == (0, 2, [])
        assert {row.member_id for row in again.members} == {first.member_id, asked.member_id}


@pytest.mark.capability("groups of three members: a killed member")
def test_a_silent_member_is_expelled_after_its_session_timeout(target: Target) -> None:
    member = joined(target, unique("group"), session_timeout_ms=1000, rebalance_timeout_ms=120_000)
    member.connection.close()
    with target.raw(coordinator(target, member.group)) as connection:

        def state() -> bool:
            answer = connection.ask(build(15, groups=[member.group]), 4)
            return bool(answer.groups[0].group_state == "Empty")

        until(state, "an empty group")
        assert heartbeat(connection, member.group, member.member_id, 1) == UNKNOWN_MEMBER_ID


@pytest.mark.capability("static members (KIP-345)")
def test_a_static_member_that_joins_again_fences_its_old_self(target: Target) -> None:
    member = joined(target, unique("group"), group_instance_id="instance")
    with member.connection as connection:
        again = connection.ask(join_request(member.group, group_instance_id="instance"), 5)
        assert (again.error_code, again.generation_id) == (0, 1)
        assert again.member_id != member.member_id
        request = build(
            12, group_id=member.group, generation_id=1, member_id=member.member_id, group_instance_id="instance"
        )
        assert connection.ask(request, 3).error_code == FENCED_INSTANCE_ID


@pytest.mark.capability("groups: a protocol that the others lack is refused")
def test_a_member_with_another_protocol_is_refused(target: Target) -> None:
    member = joined(target, unique("group"))
    with member.connection as connection:
        other = join_request(member.group, protocols=[("other", b"")])
        assert connection.ask(other, 3).error_code == INCONSISTENT_GROUP_PROTOCOL
        kind = join_request(member.group, protocol_type="connect")
        assert connection.ask(kind, 3).error_code == INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.capability("commit and fetch offsets with metadata")
def test_the_offset_of_an_unknown_group_is_minus_one_without_error(target: Target) -> None:
    topic, group = create_topic(target), unique("group")
    request = build(9, group_id=group, topics=[{"name": topic.name, "partition_indexes": [0]}], require_stable=False)
    node = coordinator(target, group)
    answer = target.ask(request, 7, node)
    row = answer.topics[0].partitions[0]
    assert (answer.error_code, row.error_code, row.committed_offset, row.metadata) == (0, 0, -1, "")

"""`tailrace group describe` shows which member has which partition; `delete` asks on a terminal."""

from __future__ import annotations

import json
from struct import pack
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner, Result

from support.refusing_cluster import RefusingCluster
from tailrace.cli.daily import app, nodes, refusals
from tailrace.errors import ErrorCode
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey


class Living(RefusingCluster):
    """A group with a member that has two partitions, and one that has none; only one partition has a commit."""

    def __init__(self, commits: int = 1) -> None:
        super().__init__()
        self._commits = commits

    def answer(self, message: Any) -> Any:
        answer = super().answer(message)
        if isinstance(answer, m.DescribeGroupsResponse):
            answer.groups[0].group_state = "Stable"
            answer.groups[0].members = [_member("busy-1", [0, 1]), _member("idle-\x1b[2J", [])]
        if isinstance(answer, m.OffsetFetchResponse):
            topics = answer.groups[0].topics
            topics[0].partitions = topics[0].partitions[: self._commits]
        return answer


def _member(name: str, partitions: list[int]) -> Any:
    topic = pack(">h6si", 6, b"orders", len(partitions)) + b"".join(pack(">i", index) for index in partitions)
    assignment = pack(">hi", 0, 1 if partitions else 0) + (topic if partitions else b"") + pack(">i", -1)
    return m.DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(
        member_id=name,
        group_instance_id=None,
        client_id="billing",
        client_host="/127.0.0.1",
        member_metadata=b"",
        member_assignment=assignment,
    )


def typed(cluster: RefusingCluster, words: list[str], monkeypatch: pytest.MonkeyPatch, answer: str = "") -> Result:
    monkeypatch.setattr(nodes, "Client", cluster.client)
    return CliRunner().invoke(app, words, input=answer, env={"TAILRACE_BOOTSTRAP": "127.0.0.1:1"})


def test_each_partition_is_shown_with_its_member_also_without_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(Living(), ["group", "describe", "readers"], monkeypatch)
    assert [line.split() for line in done.output.splitlines()] == [
        ["readers:", "Stable,", "2", "members"],
        ["topic", "partition", "committed", "end", "offset", "lag", "member", "client", "host"],
        ["orders", "0", "3", "5", "2", "busy-1", "billing", "/127.0.0.1"],
        ["orders", "1", "-", "5", "-", "busy-1", "billing", "/127.0.0.1"],
        ["member", "without", "partitions", "client", "host"],
        ["idle-\\x1b[2J", "billing", "/127.0.0.1"],
    ]


def test_one_member_is_no_plural(monkeypatch: pytest.MonkeyPatch) -> None:
    class Alone(Living):
        def answer(self, message: Any) -> Any:
            answer = super().answer(message)
            if isinstance(answer, m.DescribeGroupsResponse):
                del answer.groups[0].members[1:]
            return answer

    done = typed(Alone(), ["group", "describe", "readers"], monkeypatch)
    assert done.output.startswith("readers: Stable, 1 member\n")
    refused = typed(Alone(), ["group", "reset", "readers", "--to-earliest"], monkeypatch)
    assert refused.output.startswith("readers has 1 member, and ")


class OfConsumers(Living):
    """The same members in a group of the consumer protocol (KIP-848)."""

    def answer(self, message: Any) -> Any:
        if isinstance(message, m.ConsumerGroupDescribeRequest):
            return m.ConsumerGroupDescribeResponse(groups=[_consumer_group(message.group_ids[0])])
        answer = super().answer(message)
        if isinstance(answer, m.DescribeGroupsResponse):
            group = answer.groups[0]
            group.error_code, group.group_state, group.members = ErrorCode.GROUP_ID_NOT_FOUND, "Dead", []
            group.error_message = f"Group {group.group_id} is not a classic group."
        return answer


def _consumer_group(name: str) -> Any:
    group = m.ConsumerGroupDescribeResponse.DescribedGroup
    assignment = group.Member.Assignment
    owned = assignment.TopicPartitions(topic_id=UUID(int=1), topic_name="orders", partitions=[0, 1])
    members = [
        group.Member(
            member_id=member_id,
            client_id="billing",
            client_host="/127.0.0.1",
            subscribed_topic_names=["orders"],
            assignment=assignment(topic_partitions=topics),
            target_assignment=assignment(topic_partitions=[]),
        )
        for member_id, topics in (("busy-1", [owned]), ("idle-2", []))
    ]
    return group(group_id=name, group_state="Reconciling", assignor_name="uniform", members=members)


def test_a_group_of_the_consumer_protocol_is_shown_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(OfConsumers(), ["group", "describe", "readers"], monkeypatch)
    assert [line.split() for line in done.output.splitlines()] == [
        ["readers:", "Reconciling,", "2", "members,", "consumer", "protocol"],
        ["topic", "partition", "committed", "end", "offset", "lag", "member", "client", "host"],
        ["orders", "0", "3", "5", "2", "busy-1", "billing", "/127.0.0.1"],
        ["orders", "1", "-", "5", "-", "busy-1", "billing", "/127.0.0.1"],
        ["member", "without", "partitions", "client", "host"],
        ["idle-2", "billing", "/127.0.0.1"],
    ]
    said = json.loads(typed(OfConsumers(), ["group", "describe", "readers", "--json"], monkeypatch).output)
    assert (said["type"], said["partition_assignor"]) == ("CONSUMER", "uniform")
    refused = typed(OfConsumers(), ["group", "reset", "readers", "--to-earliest"], monkeypatch)
    assert refused.output.startswith("readers has 2 members, and ")


def test_the_list_tells_the_types_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(RefusingCluster(), ["group", "list"], monkeypatch)
    assert [line.split() for line in done.output.splitlines()] == [
        ["group", "state", "type", "protocol"],
        ["readers", "Empty", "classic", "consumer"],
    ]


def test_a_live_group_without_commits_is_no_empty_table(monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(Living(commits=0), ["group", "describe", "readers"], monkeypatch)
    assert done.output.count("busy-1") == 2


def test_programs_get_the_names_of_the_rest_api(monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.loads(typed(Living(), ["group", "describe", "readers", "--json"], monkeypatch).output)
    assert (said["consumer_group_id"], said["state"]) == ("readers", "STABLE")
    assert [member["consumer_id"] for member in said["consumers"]] == ["busy-1", "idle-\x1b[2J"]
    assert said["partitions"][1] == {
        "topic_name": "orders",
        "partition_id": 1,
        "current_offset": None,
        "log_end_offset": 5,
        "lag": None,
        "consumer_id": "busy-1",
        "client_id": "billing",
        "client_host": "/127.0.0.1",
    }


DELETIONS = (
    (["topic", "delete", "orders"], ApiKey.DELETE_TOPICS),
    (["group", "delete", "readers"], ApiKey.DELETE_GROUPS),
)


@pytest.mark.parametrize(("words", "key"), DELETIONS)
@pytest.mark.parametrize(
    ("terminal", "more", "answer", "deleted"),
    [
        (True, [], "y\n", True),
        (True, [], "n\n", False),
        (True, [], "\n", False),
        (True, ["--yes"], "", True),
        (False, [], "", True),
    ],
)
def test_a_person_is_asked_before_anything_is_deleted_and_a_script_is_not(
    words: list[str],
    key: ApiKey,
    terminal: bool,
    more: list[str],
    answer: str,
    deleted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refusals, "is_terminal", lambda: terminal)
    cluster = RefusingCluster()
    done = typed(cluster, [*words, *more], monkeypatch, answer)
    assert (key in cluster.asked) is deleted, done.output
    assert done.exit_code == (0 if deleted else 1)
    assert ("Delete " in done.output) is (terminal and not more)

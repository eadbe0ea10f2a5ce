"""`tailrace group describe` shows which member has which partition; `delete` asks on a terminal."""

from __future__ import annotations

import json
from struct import pack
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from support.refusing_cluster import RefusingCluster
from tailrace.cli.daily import app, nodes, refusals
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
    refused = typed(Alone(), ["group", "reset", "readers"], monkeypatch)
    assert refused.output.startswith("readers has 1 member, and ")


def test_a_live_group_without_commits_is_no_empty_table(monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(Living(commits=0), ["group", "describe", "readers"], monkeypatch)
    assert done.output.count("busy-1") == 2


def test_programs_get_the_names_of_the_rest_api(monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.loads(typed(Living(), ["group", "describe", "readers", "--json"], monkeypatch).output)
    assert (said["consumer_group_id"], said["state"]) == ("readers", "Stable")
    assert [member["consumer_id"] for member in said["consumers"]] == ["busy-1", "idle-\x1b[2J"]
    assert said["partitions"][1] == {
        "topic_name": "orders",
        "partition_id": 1,
        "current_offset": None,
        "log_end_offset": 5,
        "lag": None,
        "consumer_id": "busy-1",
        "client_id": "billing",
        "host": "/127.0.0.1",
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

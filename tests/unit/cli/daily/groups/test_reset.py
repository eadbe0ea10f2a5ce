"""`tailrace group reset`: the plan, what is committed, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from support.refusing_cluster import RefusingCluster
from tailrace.cli.daily import app, nodes
from tailrace.wire import messages as m

EARLIEST, LATEST = -2, -1


class Logs(RefusingCluster):
    """Logs from offset 1 to 5; a record of any time is at 2. `committed` is what the command commits."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: dict[int, int] = {}
        self.times: list[int] = []

    def answer(self, message: Any) -> Any:
        answer = super().answer(message)
        if isinstance(message, m.ListOffsetsRequest):
            asked = message.topics[0].partitions[0].timestamp
            for part in answer.topics[0].partitions:
                part.offset = {EARLIEST: 1, LATEST: 5}.get(asked, 2)
            self.times += [asked] if asked >= 0 else []
        if isinstance(message, m.OffsetCommitRequest):
            self.committed = {part.partition_index: part.committed_offset for part in message.topics[0].partitions}
        return answer


def typed(words: list[str], monkeypatch: pytest.MonkeyPatch, cluster: RefusingCluster | None = None) -> Result:
    monkeypatch.setattr(nodes, "Client", (cluster or Logs()).client)
    return CliRunner().invoke(app, ["group", "reset", "readers", *words], env={"TAILRACE_BOOTSTRAP": "127.0.0.1:1"})


def test_a_plan_is_shown_and_nothing_is_changed_without_execute(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Logs()
    done = typed(["--to-earliest"], monkeypatch, cluster)
    assert [line.split() for line in done.output.splitlines()[:3]] == [
        ["topic", "partition", "committed", "new", "offset"],
        ["orders", "0", "3", "1"],
        ["orders", "1", "3", "1"],
    ]
    assert done.output.splitlines()[3] == "readers: 2 partitions to reset; nothing is changed without --execute"
    assert cluster.committed == {}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--to-earliest"], {0: 1, 1: 1}),
        (["--to-latest"], {0: 5, 1: 5}),
        (["--to-current"], {0: 3, 1: 3}),
        (["--to-offset", "4", "--topic", "orders:1"], {1: 4}),
        (["--shift-by", "-1"], {0: 2, 1: 2}),
        (["--to-datetime", "1970-01-01T00:00:07"], {0: 2, 1: 2}),
        (["--by-duration", "PT1H", "-t", "orders"], {0: 2, 1: 2}),
        (["--to-latest", "--topic-regex", "ord.*"], {0: 5, 1: 5}),
        (["--to-latest", "--all-topics"], {0: 5, 1: 5}),
    ],
)
def test_what_is_planned_is_committed_with_execute(
    words: list[str], expected: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Logs()
    done = typed([*words, "--execute"], monkeypatch, cluster)
    assert (done.exit_code, cluster.committed) == (0, expected), done.output
    assert cluster.times == ([7_000] if "--to-datetime" in words else cluster.times)


def test_an_offset_outside_of_the_log_becomes_the_end_of_it_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(["--to-offset", "99", "-t", "orders:0"], monkeypatch)
    assert done.stderr == "orders-0: offset 99 is not in the log; it becomes 5\n"


def test_an_exported_plan_is_what_a_file_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(["--to-offset", "4", "--export"], monkeypatch)
    assert done.stdout == "orders,0,4\norders,1,4\n"
    file = tmp_path / "plan.csv"
    file.write_text(done.stdout)
    cluster = Logs()
    assert typed(["--from-file", str(file), "--execute"], monkeypatch, cluster).exit_code == 0
    assert cluster.committed == {0: 4, 1: 4}


def test_programs_get_the_names_of_the_rest_api(monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.loads(typed(["--to-latest", "-t", "orders:0", "--json"], monkeypatch).output)
    row = {"topic_name": "orders", "partition_id": 0, "current_offset": 3, "new_offset": 5}
    assert said == {"consumer_group_id": "readers", "executed": False, "partitions": [row]}


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ([], 2, "one of --to-earliest, "),
        (["--to-earliest", "--to-latest"], 2, "one of --to-earliest, "),
        (["--to-earliest", "-t", "orders:7"], 1, "orders has no partition 7"),
        (["--to-earliest", "--topic-regex", "nope.*"], 1, "no topic matches nope.*"),
        (["--to-earliest", "--topic-regex", "("], 2, "not a regular expression"),
        (["--to-earliest", "--all-topics", "-t", "orders"], 2, "--all-topics, or --topic"),
        (["--from-file", "/no/such/file"], 2, "No such file"),
        (["--to-earliest", "--export", "--json"], 2, "--export or --output json"),
    ],
)
def test_what_cannot_be_done_is_said(words: list[str], status: int, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = typed(words, monkeypatch)
    flat = " ".join(done.output.replace("│", " ").split())
    assert (done.exit_code, told in flat) == (status, True), done.output


def test_a_group_that_does_not_exist_is_reset_for_the_topics_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Without(Logs):
        def answer(self, message: Any) -> Any:
            answer = super().answer(message)
            if isinstance(answer, m.DescribeGroupsResponse):
                answer.groups[0].group_state = "Dead"
            if isinstance(answer, m.OffsetFetchResponse):
                answer.groups[0].topics = []
            return answer

    cluster = Without()
    assert typed(["--to-current", "-t", "orders", "--execute"], monkeypatch, cluster).exit_code == 0
    assert cluster.committed == {0: 5, 1: 5}
    done = typed(["--to-current"], monkeypatch, Without())
    assert done.output.startswith("readers has committed no offset, ")

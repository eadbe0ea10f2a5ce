"""Apache Kafka's own tools for replicas and leaders: kafka-reassign-partitions, kafka-leader-election, kafka-topics."""

import json
from pathlib import Path
from typing import Any

import pytest

from support import java_tools as tools
from support.java_tools import JavaTools, Shell
from support.stage import create_topic, metadata_request
from support.targets import Target
from support.waiting import until

pytestmark = [pytest.mark.by("java"), pytest.mark.only("tailrace3")]


class Planner(Shell):
    """The tools with plans, which are files."""

    def __init__(self, jvm: JavaTools, bootstrap: str, folder: Path) -> None:
        super().__init__(jvm, bootstrap)
        self.folder = folder

    def reassign(self, action: str, plan: dict[str, Any], *more: str) -> str:
        path = self.folder / "plan.json"
        path.write_text(json.dumps(plan))
        return self.out(tools.REASSIGN, action, "--reassignment-json-file", str(path), *more)


@pytest.fixture
def shell(target: Target, jvm: JavaTools, tmp_path: Path) -> Planner:
    return Planner(jvm, target.bootstrap, tmp_path)


def plan_of(topic: str, *replicas: list[int]) -> dict[str, Any]:
    rows = [{"topic": topic, "partition": index, "replicas": nodes} for index, nodes in enumerate(replicas)]
    return {"version": 1, "partitions": rows}


def replicas_of(target: Target, topic: str) -> list[list[int]]:
    rows = target.ask(metadata_request(topic), 12).topics[0].partitions
    return [list(row.replica_nodes) for row in sorted(rows, key=lambda row: row.partition_index)]


@pytest.mark.capability("partitions moved between brokers")
def test_reassign_partitions_generates_executes_lists_and_verifies(target: Target, shell: Planner) -> None:
    topic = create_topic(target, partitions=2).name
    wanted = shell.folder / "topics.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generated = shell.out(
        tools.REASSIGN, "--generate", "--topics-to-move-json-file", str(wanted), "--broker-list", "0,1"
    )
    assert "Proposed partition reassignment configuration" in generated
    plan = plan_of(topic, [1, 2], [2, 0])
    assert "Successfully started partition reassignments" in shell.reassign("--execute", plan)
    until(lambda: "is completed" in shell.reassign("--verify", plan), "the moves")
    until(lambda: replicas_of(target, topic) == [[1, 2], [2, 0]], "the moves at node 0")
    assert "No partition reassignments found." in shell.out(tools.REASSIGN, "--list")
    behind = (tools.TOPICS, "--describe", "--under-replicated-partitions")
    until(lambda: topic not in shell.out(*behind), "the moves at the node that the tool asks")


@pytest.mark.capability("partitions moved between brokers")
def test_reassign_partitions_with_a_throttle_sets_it_and_verify_takes_it_away(target: Target, shell: Planner) -> None:
    topic = create_topic(target).name
    plan = plan_of(topic, [2, 1])
    done = shell.reassign("--execute", plan, "--throttle", "50000000")
    assert "throttle limit was set to 50000000 B/s" in done
    until(lambda: "is completed" in shell.reassign("--verify", plan), "the move")
    named = ("--entity-type", "topics", "--entity-name", topic)
    until(lambda: "throttled" not in shell.out(tools.CONFIGS, "--describe", *named), "the throttle is gone")


@pytest.mark.capability("preferred leaders elected")
def test_leader_election_gives_partitions_back_to_their_first_replica(target: Target, shell: Planner) -> None:
    topic = create_topic(target).name
    shell.reassign("--execute", plan_of(topic, [0, 1]))
    until(lambda: "is completed" in shell.reassign("--verify", plan_of(topic, [0, 1])), "the second replica")
    shell.reassign("--execute", plan_of(topic, [1, 0]))
    until(lambda: "is completed" in shell.reassign("--verify", plan_of(topic, [1, 0])), "the other order")
    said = shell.out(tools.ELECTION, "--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert "completed" in said or "already" in said or "not needed" in said, said
    until(lambda: target.ask(metadata_request(topic), 12).topics[0].partitions[0].leader_id == 1, "leader 1")

"""Replicas that move between the log dirs of their broker (KIP-113), by Kafka's tools, on a node with two dirs."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import java_tools as tools
from support.java_tools import JavaTools, Shell
from support.kafka_nodes import KafkaNodes
from support.kafka_peer import missing
from support.nodes import Nodes
from support.plugin import leave_out
from support.raw import build
from support.replicated import Replicated, create
from support.tailrace_nodes import TailraceNodes
from support.waiting import until

pytestmark = pytest.mark.by("java")
ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS = 34, 35


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Nodes]:
    """A node with two log dirs, in place of the four that others share."""
    if request.param == "kafka" and (absent := missing()):
        leave_out(absent)
    folder = Path(tempfile.mkdtemp(prefix="two-dirs-"))
    made: Nodes
    if request.param == "kafka":
        made = kafka = KafkaNodes(folder, 1)
        kafka.more_log_dirs[0] = [folder / "second"]
    else:
        made = tailrace = TailraceNodes(folder, 1)
        tailrace.own_settings["broker-0"] = {"log.dirs": f"{folder / 'first'}/,{folder}//second"}
    try:
        with made:
            made.wait_for_all()
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def held(nodes: Nodes, topic: Replicated) -> dict[str, list[tuple[int, bool]]]:
    """Each log dir's replicas of the topic: the partition, and whether it is on its way there."""
    found = {}
    for row in nodes.ask(0, build(DESCRIBE_LOG_DIRS, topics=None), 4).results:
        assert row.error_code == 0
        mine = [part for one in row.topics if one.name == topic.name for part in one.partitions]
        found[row.log_dir] = sorted((part.partition_index, part.is_future_key) for part in mine)
    return found


@pytest.mark.capability("replicas moved between log dirs")
def test_the_reassign_tool_moves_a_replica_to_another_log_dir_with_its_records(
    cluster: Nodes, jvm: JavaTools, tmp_path: Path
) -> None:
    topic = create(cluster, [0])
    for n in range(20):
        topic.append(b"%d" % n)
    (source,) = [path for path, rows in held(cluster, topic).items() if rows]
    (target,) = [path for path, rows in held(cluster, topic).items() if not rows]
    shell, plan = Shell(jvm, cluster.bootstrap), tmp_path / "plan.json"
    row = {"topic": topic.name, "partition": 0, "replicas": [0], "log_dirs": [target]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    done = shell.out(tools.REASSIGN, "--execute", "--reassignment-json-file", str(plan))
    assert f"Successfully started moving log directory to {target} for replica {topic.name}-0 with broker 0" in done
    until(lambda: held(cluster, topic) == {source: [], target: [(0, False)]}, "the move")
    verified = shell.out(tools.REASSIGN, "--verify", "--reassignment-json-file", str(plan))
    assert f"Reassignment of replica {topic.name}-0-0 completed successfully." in verified
    listed = shell.out(tools.LOG_DIRS, "--describe", "--topic-list", topic.name)
    described: Any = json.loads(next(line for line in listed.splitlines() if line.startswith("{")))
    rows = {d["logDir"]: d["partitions"] for d in described["brokers"][0]["logDirs"]}
    assert rows[source] == []
    assert [(r["partition"], r["offsetLag"], r["isFuture"]) for r in rows[target]] == [(f"{topic.name}-0", 0, False)]
    assert [value for _, value in topic.read()] == [b"%d" % n for n in range(20)]
    assert topic.append(b"20") == 20
    cluster.shut_down(0)
    cluster.start_node(0)
    cluster.wait_for_all()
    topic.wait_for_leader(0)
    assert held(cluster, topic) == {source: [], target: [(0, False)]}
    assert [value for _, value in topic.read()] == [b"%d" % n for n in range(21)]


@pytest.mark.capability("replicas moved between log dirs")
def test_a_replica_that_is_where_it_shall_be_and_dirs_that_are_not_there_have_kafkas_answers(cluster: Nodes) -> None:
    topic = create(cluster, [0], [0])
    dirs = sorted(held(cluster, topic))

    def move(path: str, name: str, index: int) -> int:
        row = {"path": path, "topics": [{"name": name, "partitions": [index]}]}
        (found,) = cluster.ask(0, build(ALTER_REPLICA_LOG_DIRS, dirs=[row]), 2).results
        (part,) = found.partitions
        return int(part.error_code)

    assert dirs == [str(Path(path)) for path in dirs]
    there = {path: [move(path, topic.name, n) for n in (0, 1)] for path in dirs}
    assert there == {path: [0, 0] for path in dirs}
    until(lambda: held(cluster, topic)[dirs[-1]] == [(0, False), (1, False)], "both in the last dir asked for")
    assert move("/no/such/dir", topic.name, 0) == 57  # LOG_DIR_NOT_FOUND
    assert move(f"{dirs[-1]}/", topic.name, 0) == 57  # compared as text with what DescribeLogDirs says
    assert move(dirs[0], topic.name, 9) == 3  # UNKNOWN_TOPIC_OR_PARTITION
    assert move(dirs[0], "no-such-topic", 0) == 3
    assert move(dirs[0], "t" * 240, 0) == 17  # INVALID_TOPIC_EXCEPTION

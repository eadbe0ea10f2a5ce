"""Fetches that name racks and replicas as nobody should: clients in a rack are sent nowhere else, and no ISR moves."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from support.raw import ConnectionClosed, Raw, build
from support.replicated import FETCH, Replicated, create, values_of
from support.tailrace_nodes import TailraceNodes
from support.waiting import until

NODES = 3
RECORDS = 10
PATIENT = {"broker.session.timeout.ms": "60000", "replica.lag.time.max.ms": "60000"}  # a busy machine moves no ISR
RACKS = ("r0", "r1", "r2", "", "r3", "R1", "r1\0", "r1" * 127, "r" * 32_767, "\0" * 32_767, "😀" * 8_000, "../r1", "-1")
REPLICAS = (-1, -1, -1, -2, -3, 0, 1, 2, 3, 2**31 - 1, -(2**31))
OFFSETS = (0, 1, RECORDS, RECORDS + 1, -1, 2**63 - 1)
SESSIONS = ((0, -1), (0, 0), (7, 1), (-1, -1), (2**31 - 1, 2**31 - 1))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TailraceNodes]:
    with TailraceNodes(tmp_path_factory.mktemp("racks"), NODES, settings=PATIENT) as started:
        started.wait_for_all()
        yield started


def fetch(topic: Replicated, *, rack: str, replica: int, offset: int, session: tuple[int, int], version: int) -> Any:
    row = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": offset, "log_start_offset": -1}
    named = {"topic": topic.name, "topic_id": topic.topic_id, "partitions": [row | {"partition_max_bytes": 1 << 20}]}
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0}
    fields |= {"session_id": session[0], "session_epoch": session[1], "forgotten_topics_data": [], "rack_id": rack}
    fields["replica_state"] = {"replica_id": replica, "replica_epoch": -1}  # since version 15
    return build(FETCH, topics=[named], replica_id=replica, **fields)


def test_racks_and_replicas_from_outside_move_nothing(nodes: TailraceNodes, seed: int, requests: int) -> None:
    topic, chance = create(nodes, [0, 1, 2]), Random(seed)
    topic.append(*(b"%d" % number for number in range(RECORDS)))
    before = topic.wait(lambda state: state.isr == {0, 1, 2}, "three replicas in sync")
    for node in range(NODES):
        until(lambda at=node: topic.fetch(0, node=at).high_watermark == RECORDS, f"all records at {node}")  # type: ignore[misc]
    connections: dict[int, Raw] = {}
    told = set[tuple[str, int]]()
    for _ in range(max(requests, 200)):
        node, rack = chance.randrange(NODES), chance.choice(RACKS)
        replica, offset, session = chance.choice(REPLICAS), chance.choice(OFFSETS), chance.choice(SESSIONS)
        version = chance.randint(11, 17)
        asked = fetch(topic, rack=rack, replica=replica, offset=offset, session=session, version=version)
        connection = connections.get(node) or connections.setdefault(node, nodes.raw(node))
        try:
            answer = connection.ask(asked, version)
        except ConnectionClosed:
            connections.pop(node).close()
            continue
        rows = [row for one in answer.responses for row in one.partitions]
        assert all(row.error_code or row.high_watermark == RECORDS for row in rows)
        told |= {(rack, row.preferred_read_replica) for row in rows if row.preferred_read_replica not in (None, -1)}
    for connection in connections.values():
        connection.close()
    assert told <= {("r1", 1), ("r2", 2)}
    assert topic.state() == before
    for node in (1, 2):  # who is in a rack is still sent to its replica, and served there
        assert topic.fetch(0, rack=f"r{node}").preferred_read_replica == node
        assert len(values_of(topic.fetch(0, node=node, rack=f"r{node}").records)) == RECORDS
    lines = [line for file in nodes.folder.glob("*.log") for line in file.read_text().splitlines()]
    assert [line for line in lines if '"level": "error"' in line or "by a bug" in line or "Traceback" in line] == []
    assert all(child.process.poll() is None for child in nodes.children.values())

"""kill -9 of a broker while it moves a replica between its log dirs, by REST: nothing is lost, and one log remains."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.nodes import Nodes
from support.ports import free_ports
from support.replicated import BROKER, Replicated, alter_configs, create
from support.tailrace_nodes import TailraceNodes
from support.waiting import until

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LARGE = b"x" * 700_000  # two of them are more than what is copied before the throttle is looked at


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Nodes, httpx.Client, list[Path]]]:
    """A broker with two log dirs whose moves stand still after their first MiB, and its cluster's REST API."""
    with tempfile.TemporaryDirectory(prefix="moves-", ignore_cleanup_errors=True) as name:
        folder, admin = Path(name), free_ports(1)
        dirs = [folder / "first", folder / "second"]
        nodes = TailraceNodes(folder, 1)
        nodes.own_settings = {
            "broker-0": {"log.dirs": ",".join(map(str, dirs))},
            "gateway-0": {"admin.port": str(admin)},
        }
        with nodes:
            nodes.wait_for_all()
            clusters = f"http://127.0.0.1:{admin}/v3/clusters"
            (cluster,) = httpx.get(clusters).json()["data"]
            with httpx.Client(base_url=f"{clusters}/{cluster['cluster_id']}", timeout=20) as http:
                yield nodes, http, dirs


def holders(dirs: list[Path], topic: Replicated) -> list[Path]:
    """The dirs in which the partition's log lies, whatever is on its way."""
    return [path for path in dirs if (path / f"{topic.name}-0").exists()]


def copied(http: httpx.Client, move: str) -> int | None:
    """The bytes that were copied, None where there is no move."""
    answer = http.get(move)
    row: Any = answer.json()
    return int(row["copied_bytes"]) if answer.status_code == 200 else None


def test_a_move_that_a_kill_9_ended_goes_on_and_loses_nothing(place: tuple[Nodes, httpx.Client, list[Path]]) -> None:
    nodes, http, dirs = place
    alter_configs(nodes, BROKER, "0", **{RATE: "1"})
    topic = create(nodes, [0])
    values = [b"%d" % n + LARGE for n in range(8)]
    for value in values:
        topic.append(value)
    (source,) = holders(dirs, topic)
    (target,) = [path for path in dirs if path != source]
    move = f"topics/{topic.name}/partitions/0/replicas/0/log-dir-move"

    assert http.put(move, json={"log_dir": str(target)}).status_code == 204
    assert until(lambda: copied(http, move) or None, "the first piece") < len(LARGE) * 4
    for n in (8, 9):
        values.append(b"%d" % n)
        topic.append(values[-1])
    nodes.kill(0)
    assert holders(dirs, topic) == [source]
    (begun,) = target.glob(f"{topic.name}-0.*-future")
    nodes.start_node(0)
    nodes.wait_for_all()

    # A life copies one piece of a megabyte or two before it owes the rate anything.
    assert until(lambda: copied(http, move) or None, "the move goes on where it was") < len(LARGE) * 6
    (row,) = http.get("brokers/0/log-dir-moves").json()["data"]
    assert (row["source_log_dir"], row["target_log_dir"]) == (str(source), str(target))
    assert begun.exists()
    assert [value for _, value in topic.read()] == values
    topic.append(b"10")
    values.append(b"10")

    alter_configs(nodes, BROKER, "0", **{RATE: None})
    until(lambda: holders(dirs, topic) == [target], "the move")
    assert http.get(move).status_code == 404
    assert list(target.glob("*-future")) == []
    assert [value for _, value in topic.read()] == values
    assert topic.append(b"11") == 11


def test_a_move_is_given_up_by_rest(place: tuple[Nodes, httpx.Client, list[Path]]) -> None:
    nodes, http, dirs = place
    alter_configs(nodes, BROKER, "0", **{RATE: "1"})
    topic = create(nodes, [0])
    for n in range(3):
        topic.append(b"%d" % n + LARGE)
    (source,) = holders(dirs, topic)
    (target,) = [path for path in dirs if path != source]
    move = f"topics/{topic.name}/partitions/0/replicas/0/log-dir-move"
    assert http.put(move, json={"log_dir": str(target)}).status_code == 204
    until(lambda: copied(http, move) or None, "the first piece")
    assert http.delete(move).status_code == 204
    assert http.get(move).status_code == 404
    assert (holders(dirs, topic), list(target.glob("*-future"))) == ([source], [])
    assert http.put(move, json={"log_dir": "/no/such/dir"}).status_code == 404
    assert len(topic.read()) == 3

"""When the throttle of a move is taken away: with its end, or where nothing moves; not while replicas may be moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tailrace.cli.daily.nodes import Size
from tailrace.cli.daily.reassignments import move
from tailrace.cli.daily.refusals import RefusedError
from tailrace.metadata.moves import Partition, Replicas
from tailrace.wire.messages import IncrementalAlterConfigsResponse

PLAN: dict[Partition, Replicas] = {("t", 0): (1, 0), ("t", 1): (1, 0)}
BEFORE: dict[Partition, Replicas] = {("t", 0): (0, 2), ("t", 1): (0, 2)}
SET = 0  # an operation


class Cluster:
    """Moves last for so many looks; what is refused does not move."""

    def __init__(self, looks: int = 0, refused: Iterable[Partition] = ()) -> None:
        self.looks, self.refused = looks, set(refused)
        self.moving: dict[Partition, Any] = {}
        self.rows = {key: SimpleNamespace(replica_nodes=list(replicas)) for key, replicas in PLAN.items()}
        self.configs: set[tuple[str, str]] = set()

    def ask(self, message: Any, version: int) -> Any:
        for row in message.resources:
            for config in row.configs:
                key = (row.resource_name, config.name)
                (self.configs.add if config.config_operation == SET else self.configs.discard)(key)
        return IncrementalAlterConfigsResponse(responses=[])

    def reassign(self, plan: Mapping[Partition, Replicas]) -> dict[Partition, str | None]:
        part = SimpleNamespace(adding_replicas=[1], removing_replicas=[2], replicas=[0, 1, 2])
        self.moving = {key: part for key in plan if key not in self.refused}
        return {key: "INVALID_REPLICA_ASSIGNMENT" if key in self.refused else None for key in plan}

    def reassignments(self) -> dict[Partition, Any]:
        self.looks -= 1
        if self.looks < 0:
            self.moving = {}
        return self.moving

    def sizes(self, partitions: Iterable[Partition]) -> dict[tuple[int, Partition], Size]:
        return {}

    def partitions(self, topics: Iterable[str]) -> dict[Partition, Any]:
        return self.rows

    def pause(self, time_ms: float) -> None:
        pass


def moved(cluster: Cluster, **options: Any) -> None:
    move(cluster, BEFORE, PLAN, 1000, **options)  # type: ignore[arg-type]


def test_a_throttle_ends_with_its_moves() -> None:
    cluster = Cluster(looks=2)
    moved(cluster)
    assert cluster.configs == set() and not cluster.moving


@pytest.mark.parametrize("end", [RefusedError("not done within 1 s"), ConnectionError("gone"), KeyboardInterrupt()])
def test_a_throttle_stays_and_is_named_when_the_wait_ends_before_the_moves(
    end: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    def tick() -> None:
        raise end

    cluster = Cluster(looks=9)
    with pytest.raises(type(end)):
        moved(cluster, tick=tick)
    assert ("t", "leader.replication.throttled.replicas") in cluster.configs
    for node in ("0", "1", "2"):
        assert (node, "leader.replication.throttled.rate") in cluster.configs
    told = capsys.readouterr().err
    assert "the throttle stays: on brokers 0,1,2 and topics t." in told
    assert "`tailrace config unset broker ID leader.replication.throttled.rate" in told


def test_a_throttle_of_what_was_refused_is_taken_away() -> None:
    cluster = Cluster(refused=PLAN)
    with pytest.raises(RefusedError):
        moved(cluster)
    assert cluster.configs == set()


def test_a_throttle_stays_where_only_some_were_refused(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(looks=9, refused=[("t", 1)])
    with pytest.raises(RefusedError, match=r"t-1: INVALID_REPLICA_ASSIGNMENT"):
        moved(cluster)
    assert ("0", "leader.replication.throttled.rate") in cluster.configs
    assert "the throttle stays" in capsys.readouterr().err

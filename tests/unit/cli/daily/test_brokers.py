"""`tailrace broker drain --leaders-only`, `scale-down --forget` and `unregister`: what they wait for and refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tailrace.cli.daily import app, brokers
from tailrace.cli.daily.deadline import Deadline
from tailrace.cli.daily.nodes import RegisteredBroker
from tailrace.cli.daily.refusals import RefusedError
from tailrace.metadata.moves import Partition, Replicas

LEAVING, OTHER = 2, 0
WHY = "PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available."


class Cluster:
    """Two brokers, of which one leads all; an election gives the other one what is not refused."""

    def __init__(self, partitions: int, refused: Iterable[int] = ()) -> None:
        self.rows = {
            ("t", index): SimpleNamespace(replica_nodes=[LEAVING, OTHER], isr_nodes=[LEAVING, OTHER], leader_id=LEAVING)
            for index in range(partitions)
        }
        self.refused: dict[Partition, str | None] = {("t", index): WHY for index in refused}
        self.moving: dict[Partition, Any] = {}
        self.deleted_after_a_look: list[Partition] = []
        self.stops_after = 0
        self.looks = self.pauses = 0
        self.forgotten: list[int] = []
        self.deadline = Deadline(self, lasting=True)

    def brokers(self) -> list[RegisteredBroker]:
        return [
            RegisteredBroker(OTHER, "h", 1, None, False),
            RegisteredBroker(LEAVING, "h", 2, None, fenced=self.pauses >= self.stops_after),
        ]

    def partitions(self, topics: Iterable[str] = ()) -> dict[Partition, Any]:
        self.looks += 1
        found = dict(self.rows)
        for key in self.deleted_after_a_look:
            self.rows.pop(key, None)
        return found

    def reassignments(self) -> dict[Partition, Any]:
        return self.moving

    def sizes(self, partitions: Iterable[Partition]) -> dict[Any, Any]:
        return {}

    def reassign(self, plan: Mapping[Partition, Replicas]) -> dict[Partition, str | None]:
        for key in plan.keys() & self.rows.keys():
            self.rows[key].replica_nodes = list(plan[key])
        return dict.fromkeys(plan)

    def elect(self, partitions: Iterable[Partition], *, unclean: bool) -> dict[Partition, str | None]:
        for key in partitions:
            if key in self.rows and key not in self.refused:
                self.rows[key].leader_id = OTHER
        return {key: self.refused.get(key) for key in partitions}

    def unregister(self, broker_id: int) -> None:
        self.forgotten.append(broker_id)

    def monotonic_ms(self) -> float:
        return 0

    def pause(self, time_ms: float) -> None:
        self.pauses += 1


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    def run(cluster: Cluster, *words: str) -> Result:
        @contextmanager
        def nodes(bootstrap: str | None, *, lasting: bool = False) -> Iterator[Cluster]:
            yield cluster

        monkeypatch.setattr(brokers, "nodes", nodes)
        return CliRunner().invoke(app, ["broker", *words])

    return run


def test_leaders_that_no_election_moves_are_named_and_not_waited_for(typed: Callable[..., Result]) -> None:
    cluster = Cluster(3, refused=[1])
    done = typed(cluster, "drain", str(LEAVING), "--leaders-only")
    assert done.output.splitlines() == [
        "3 of 3 partitions are moved",
        f"t-1: {WHY}",
        "2 of 3 partitions that broker 2 led have another leader",
    ]
    assert isinstance(done.exception, RefusedError) and str(done.exception) == "broker 2 still leads 1 of them"
    assert cluster.pauses == 0


def test_leaders_that_all_moved_are_a_success(typed: Callable[..., Result]) -> None:
    done = typed(Cluster(2), "drain", str(LEAVING), "--leaders-only")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == "2 of 2 partitions that broker 2 led have another leader"


def test_a_topic_that_is_deleted_while_leaders_are_moved_is_no_fault(typed: Callable[..., Result]) -> None:
    cluster = Cluster(2)
    cluster.deleted_after_a_look = [("t", 1)]
    done = typed(cluster, "drain", str(LEAVING), "--leaders-only")
    assert done.exit_code == 0, done.output


def test_the_partitions_are_asked_for_as_often_however_many_a_broker_leads(typed: Callable[..., Result]) -> None:
    few, many = Cluster(2), Cluster(40)
    for cluster in (few, many):
        assert typed(cluster, "drain", str(LEAVING), "--leaders-only").exit_code == 0
    assert few.looks == many.looks


def test_a_drain_waits_for_the_moves_that_an_earlier_one_left(typed: Callable[..., Result]) -> None:
    cluster = Cluster(1)
    (row,) = cluster.rows.values()
    cluster.moving = {
        ("t", 0): SimpleNamespace(replicas=[OTHER, LEAVING], adding_replicas=[], removing_replicas=[LEAVING])
    }

    def pause(time_ms: float) -> None:
        cluster.pauses += 1
        if cluster.pauses == 2:
            cluster.moving, row.replica_nodes = {}, [OTHER]

    cluster.pause = pause  # type: ignore[method-assign]
    done = typed(cluster, "drain", str(LEAVING))
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[:3] == [
        "0 of 1 partitions are moved",
        "1 of 1 partitions are moved",
        "broker 2 holds no partition",
    ]


def test_scale_down_says_which_broker_it_waits_for_before_it_forgets_it(typed: Callable[..., Result]) -> None:
    cluster = Cluster(0)
    cluster.stops_after = 3
    done = typed(cluster, "scale-down", "1", "--forget")
    assert done.output.splitlines() == [
        "broker 2 still runs; it is forgotten when it has stopped",
        "broker 2 is forgotten",
    ]
    assert cluster.forgotten == [LEAVING]


@pytest.mark.parametrize(("stopped", "partitions", "word"), [(False, 0, "runs: stop it first"), (True, 4, "holds 4")])
def test_a_broker_that_runs_or_holds_something_is_only_forgotten_by_force(
    stopped: bool, partitions: int, word: str, typed: Callable[..., Result]
) -> None:
    cluster = Cluster(partitions)
    cluster.stops_after = 0 if stopped else 1
    refused = typed(cluster, "unregister", str(LEAVING)).exception
    assert isinstance(refused, RefusedError) and word in str(refused)
    assert f"`tailrace broker unregister {LEAVING} --force`" in str(refused)
    assert cluster.forgotten == []
    assert typed(cluster, "unregister", str(LEAVING), "--force").exit_code == 0
    assert cluster.forgotten == [LEAVING]


def test_what_holds_something_is_not_forgotten_by_scale_down(typed: Callable[..., Result]) -> None:
    refused = typed(Cluster(1), "scale-down", "1", "--forget").exception
    assert isinstance(refused, RefusedError) and "`tailrace broker drain 2` first" in str(refused)

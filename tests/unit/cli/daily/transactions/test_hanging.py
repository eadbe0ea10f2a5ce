"""Which open transactions hang: late ones that their coordinator does not know, or does not have on that partition."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tailrace.cli.daily.refusals import RefusedError
from tailrace.cli.daily.transactions import hanging
from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.wire import messages as m

NOW_MS, LATE_MS = 1_000_000, 10


def producer(producer_id: int, *, start: int = 7, at_ms: int = LATE_MS) -> Any:
    return SimpleNamespace(producer_id=producer_id, current_txn_start_offset=start, last_timestamp=at_ms)


class Cluster:
    """Two nodes; what partitions remember, and the transactions that node 1 coordinates."""

    def __init__(self) -> None:
        self.remembered: dict[tuple[str, int], list[Any]] = {("t", 0): [], ("t", 1): []}
        self.transactions: dict[str, tuple[int, str, list[tuple[str, int]]]] = {}
        self.asked: list[Any] = []

    def ask_each(self, request: Any, version: int) -> Iterator[tuple[int, Address, Any]]:
        for node in range(2):
            at = Address("h", node)
            yield node, at, self.ask(request, version, at)

    def producers(self, asked: Any) -> dict[Any, Any]:
        return {
            key: SimpleNamespace(error_code=0, error_message=None, active_producers=rows)
            for key, rows in self.remembered.items()
            if key in asked
        }

    def ask(self, request: Any, version: int, at: Any, **_: Any) -> Any:
        self.asked.append(request)
        mine = self.transactions if at.port == 1 else {}
        if isinstance(request, m.ListTransactionsRequest):
            rows = [
                SimpleNamespace(transactional_id=name)
                for name, (producer_id, *_) in mine.items()
                if producer_id in request.producer_id_filters
            ]
            return SimpleNamespace(transaction_states=rows)
        return SimpleNamespace(
            transaction_states=[
                SimpleNamespace(
                    transactional_id=name,
                    producer_id=mine[name][0],
                    transaction_state=mine[name][1],
                    topics=[SimpleNamespace(topic=topic, partitions=[index]) for topic, index in mine[name][2]],
                )
                for name in request.transactional_ids
            ]
        )


def found(cluster: Any) -> list[tuple[tuple[str, int], int]]:
    rows = hanging.find(cluster, {("t", 0): 0, ("t", 1): 1}, NOW_MS)
    return [(partition, one.producer_id) for partition, one in rows]


def test_an_open_transaction_without_transactional_id_hangs() -> None:
    cluster = Cluster()
    cluster.remembered["t", 0] = [producer(1), producer(2, start=-1), producer(3, at_ms=NOW_MS)]
    assert found(cluster) == [(("t", 0), 1)]


@pytest.mark.parametrize(
    ("state", "partitions", "hangs"),
    [
        ("Ongoing", [("t", 0)], False),
        ("PrepareAbort", [("t", 0)], False),
        ("Ongoing", [("t", 1)], True),
        ("Ongoing", [], True),
        ("CompleteCommit", [("t", 0)], True),
        ("Empty", [], True),
    ],
)
def test_a_transaction_hangs_where_its_coordinator_does_not_have_it(
    state: str, partitions: list[tuple[str, int]], hangs: bool
) -> None:
    cluster = Cluster()
    cluster.remembered["t", 0] = [producer(1)]
    cluster.transactions["mine"] = (1, state, partitions)
    assert found(cluster) == ([(("t", 0), 1)] if hangs else [])


def test_what_a_coordinator_has_open_is_told_with_its_transactional_id() -> None:
    cluster: Any = Cluster()
    cluster.transactions = {"mine": (1, "Ongoing", [("t", 0), ("t", 1)]), "past": (1, "CompleteCommit", [("t", 2)])}
    assert hanging.coordinated(cluster, [1]) == {(1, ("t", 0)): "mine", (1, ("t", 1)): "mine"}


def test_partitions_without_a_leader_are_told_apart() -> None:
    cluster: Any = SimpleNamespace(
        partitions=lambda topics: {
            ("t", index): SimpleNamespace(leader_id=leader, replica_nodes=[1, 2])
            for index, leader in enumerate((2, -1))
        }
    )
    assert hanging.places(cluster, ["t"], None, None) == ({("t", 0): 2}, [("t", 1)])
    assert hanging.places(cluster, ["t"], None, 1) == ({("t", 0): 1, ("t", 1): 1}, [])
    with pytest.raises(RefusedError, match="t has no partition 7"):
        hanging.places(cluster, ["t"], 7, None)


def test_without_late_transactions_no_coordinator_is_asked() -> None:
    cluster = Cluster()
    cluster.remembered["t", 1] = [producer(1, at_ms=NOW_MS)]
    assert found(cluster) == [] and cluster.asked == []


def test_a_partition_that_does_not_answer_is_named() -> None:
    cluster: Any = Cluster()
    del cluster.remembered["t", 1]
    with pytest.raises(RefusedError, match="t-1: broker 1 is not live"):
        found(cluster)
    cluster.producers = lambda asked: {
        key: SimpleNamespace(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, error_message=None) for key in asked
    }
    with pytest.raises(RefusedError, match="t-0: NOT_LEADER_OR_FOLLOWER"):
        found(cluster)

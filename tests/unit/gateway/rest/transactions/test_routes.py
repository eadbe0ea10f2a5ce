"""Transactions over HTTP: listed by their ids, described with their partitions, unknown ones not found."""

from typing import Any

import httpx
import pytest

from support.rest_backend import MemoryBackend
from tailrace.errors import ApiError, ErrorCode
from tailrace.wire.hot.producers import DescribedProducer, PartitionProducers, pack
from tailrace.wire.messages import (
    DescribeOpenTransactionsResponse,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
)

ROOT = "/v3/clusters/memory"


def known(backend: MemoryBackend, *names: str) -> None:
    row = ListTransactionsResponse.TransactionState
    backend.transactions = [
        row(transactional_id=name, producer_id=number, transaction_state="PrepareCommit")
        for number, name in enumerate(names)
    ]


async def test_transactional_ids_are_listed_in_order_and_described(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    known(backend, "b", "a/1")
    data = (await http.get(f"{ROOT}/transactions")).json()["data"]
    assert [(one["transactional_id"], one["producer_id"], one["state"]) for one in data] == [
        ("a/1", 1, "PREPARE_COMMIT"),
        ("b", 0, "PREPARE_COMMIT"),
    ]
    one = (await http.get(f"{ROOT}/transactions/b")).json()
    told = {key: one[key] for key in ("transactional_id", "producer_epoch", "state", "timeout_ms", "start_ms")}
    assert told == {
        "transactional_id": "b",
        "producer_epoch": 3,
        "state": "PREPARE_COMMIT",
        "timeout_ms": 60_000,
        "start_ms": 5,
    }
    assert [link["related"].rpartition("/v3/")[2] for link in one["partitions"]] == [
        "clusters/memory/topics/t/partitions/1"
    ]


async def test_an_id_that_nobody_knows_is_not_found_also_before_the_first_one(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    assert (await http.get(f"{ROOT}/transactions/none")).status_code == 404
    backend.fail_next = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (await http.get(f"{ROOT}/transactions/none")).status_code == 404
    assert (await http.get(f"{ROOT}/transactions")).json()["data"] == []


OPEN = DescribeOpenTransactionsResponse.OpenTransaction
PATH = f"{ROOT}/topics/-/partitions/-/transactions"


async def test_what_is_open_in_partitions_is_listed_the_worst_first(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    place: Any = {"topic_name": "t", "producer_epoch": 2, "start_offset": 9}
    backend.opened[0] = [
        OPEN(**place, partition_index=0, producer_id=1, last_timestamp=50),
        OPEN(**place, partition_index=1, producer_id=7, last_timestamp=70, is_late=True, is_hanging=True),
        OPEN(**place, partition_index=2, producer_id=1, last_timestamp=60, is_late=True),
        OPEN(**place, partition_index=3, producer_id=1, last_timestamp=40),
    ]
    known(backend, "a", "b")
    listed = (await http.get(PATH)).json()
    assert listed["kind"] == "TailraceOpenTransactionList"
    assert [(one["partition_id"], one["state"], one["transactional_id"]) for one in listed["data"]] == [
        (1, "HANGING", None),
        (2, "LATE", "b"),
        (3, "OPEN", "b"),
        (0, "OPEN", "b"),
    ]
    told = {
        key: listed["data"][0][key] for key in ("producer_id", "producer_epoch", "start_offset", "last_timestamp_ms")
    }
    assert told == {"producer_id": 7, "producer_epoch": 2, "start_offset": 9, "last_timestamp_ms": 70}


async def test_open_transactions_are_listed_also_while_somebody_is_away(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    backend.opened[0] = [OPEN(topic_name="t", partition_index=0, producer_id=1, last_timestamp=50)]
    known(backend, "a", "b")
    backend.fail_next = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    listed = (await http.get(PATH)).json()
    assert [row["transactional_id"] for row in listed["data"]] == [None]
    assert listed["silent_brokers"] == []
    backend.silent = {0}
    listed = (await http.get(PATH)).json()
    assert (listed["data"], listed["silent_brokers"]) == ([], [0])


async def test_a_broker_that_refuses_to_tell_is_none_without_open_transactions(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    refused = DescribeOpenTransactionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, transactions=[])
    ask = backend.ask_broker

    async def refusing(node_id: int, *asked: Any, **options: Any) -> Any:
        return refused if node_id == 1 else await ask(node_id, *asked, **options)

    backend.ask_broker = refusing  # type: ignore[method-assign]
    assert (await http.get(PATH)).json()["silent_brokers"] == [1]


ABORT = f"{ROOT}/topics/t/partitions/0/transactions:abort"


@pytest.mark.parametrize(
    ("asked", "status"),
    [({"producer_id": 7, "start_offset": 9}, 204), ({"producer_id": 7, "start_offset": 8}, 404), ({}, 400)],
)
async def test_a_transaction_that_hangs_is_aborted_by_its_first_offset(
    http: httpx.AsyncClient, backend: MemoryBackend, asked: dict[str, int], status: int
) -> None:
    backend.set_topic("t", 1)
    place: Any = {"topic_name": "t", "partition_index": 0, "producer_epoch": 2, "start_offset": 9}
    backend.opened[0] = [OPEN(**place, producer_id=7, is_late=True, is_hanging=True), OPEN(**place, producer_id=1)]
    rows = pack([DescribedProducer(1, 2, 0, 0, 4, 9), DescribedProducer(7, 2, 0, 0, 5, 9)])
    backend.described = PartitionProducers(0, 0, rows=rows)
    assert (await http.post(ABORT, json=asked)).status_code == status
    written = [one for _, one in backend.asked if isinstance(one, WriteTxnMarkersRequest)]
    assert [(row.producer_id, row.producer_epoch, row.coordinator_epoch) for one in written for row in one.markers] == (
        [(7, 2, 5)] if status == 204 else []
    )
    assert len(backend.opened[0]) == (1 if status == 204 else 2)


async def test_a_transaction_that_a_coordinator_may_have_open_is_not_aborted(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    backend.set_topic("t", 1)
    backend.opened[0] = [
        OPEN(topic_name="t", partition_index=0, producer_id=7, start_offset=9, is_late=True, is_hanging=False)
    ]
    refused = await http.post(ABORT, json={"producer_id": 7, "start_offset": 9})
    assert (refused.status_code, refused.json()["message"]) == (
        409,
        "The transaction of producer 7 in t-0 does not hang.",
    )
    assert not [one for _, one in backend.asked if isinstance(one, WriteTxnMarkersRequest)]


async def test_a_transaction_that_is_coordinated_by_the_time_it_is_to_be_aborted_does_not_hang(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    backend.set_topic("t", 1)
    place: Any = {"topic_name": "t", "partition_index": 0, "producer_id": 7, "producer_epoch": 2, "start_offset": 9}
    backend.opened[0] = [OPEN(**place, is_late=True, is_hanging=True)]
    backend.described = PartitionProducers(0, 0, rows=pack([DescribedProducer(7, 2, 0, 0, 5, 9)]))
    ask = backend.ask_broker

    async def refusing(node_id: int, message: Any, *others: Any, **options: Any) -> Any:
        answer = await ask(node_id, message, *others, **options)
        if isinstance(message, WriteTxnMarkersRequest):
            answer.markers[0].topics[0].partitions[0].error_code = int(ErrorCode.INVALID_TXN_STATE)
        return answer

    backend.ask_broker = refusing  # type: ignore[method-assign]
    assert (await http.post(ABORT, json={"producer_id": 7, "start_offset": 9})).status_code == 409

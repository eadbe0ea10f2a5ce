"""Transactions over HTTP: listed by their ids, described with their partitions, unknown ones not found."""

import httpx

from support.rest_backend import MemoryBackend
from tailrace.errors import ApiError, ErrorCode
from tailrace.wire.messages import ListTransactionsResponse

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

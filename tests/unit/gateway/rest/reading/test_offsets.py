"""Where logs begin and end over HTTP, and the deletion of records."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from support.rest_backend import MemoryBackend
from tailrace.errors import ApiError, ErrorCode
from tailrace.records.record import Record

TOPIC = "/v3/clusters/memory/topics/orders"


@pytest.fixture(autouse=True)
def orders(backend: MemoryBackend) -> None:
    backend.set_topic("orders", 2)
    backend.log("orders", 1).extend(Record(timestamp=n) for n in range(5))
    backend.begins["orders", 1] = 1


async def test_a_partition_has_a_first_and_an_end_offset(http: httpx.AsyncClient) -> None:
    found = (await http.get(f"{TOPIC}/partitions/1/offset")).json()
    assert (found["first_offset"], found["last_stable_offset"], found["end_offset"]) == (1, 5, 5)
    assert (await http.get(f"{TOPIC}/partitions/2/offset")).status_code == 404


@pytest.mark.parametrize(("offset", "new"), [(3, 3), (-1, 5), (0, 1)])
@pytest.mark.parametrize("validate_only", [True, False])
async def test_records_before_an_offset_are_deleted(
    http: httpx.AsyncClient, backend: MemoryBackend, offset: int, new: int, validate_only: bool
) -> None:
    body = {"partitions": [{"partition_id": 1, "offset": offset}], "validate_only": validate_only}
    answer = await http.post(f"{TOPIC}/records:delete", json=body)
    assert answer.status_code == 200, answer.text
    (row,) = answer.json()["data"]
    assert (row["partition_id"], row["first_offset"], row["new_first_offset"]) == (1, 1, new)
    assert backend.begins["orders", 1] == (1 if validate_only else new)


@pytest.mark.parametrize(
    ("partitions", "status"),
    [
        ([{"partition_id": 1, "offset": 6}], 400),
        ([{"partition_id": 1, "offset": -2}], 400),
        ([{"partition_id": 2, "offset": 0}], 404),
        ([], 400),
        ([{"partition_id": 1, "offset": 2}, {"partition_id": 1, "offset": 4}], 400),
    ],
)
async def test_what_cannot_be_deleted_is_refused(
    http: httpx.AsyncClient, backend: MemoryBackend, partitions: list[Any], status: int
) -> None:
    answer = await http.post(f"{TOPIC}/records:delete", json={"partitions": partitions})
    assert answer.status_code == status
    assert backend.begins["orders", 1] == 1


async def test_a_refusal_of_the_cluster_is_the_status(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.fail_next = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    answer = await http.post(f"{TOPIC}/records:delete", json={"partitions": [{"partition_id": 1, "offset": 2}]})
    assert answer.status_code == 403

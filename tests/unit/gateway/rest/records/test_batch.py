"""Producing a batch over HTTP: one answer with the outcome of each record."""

from __future__ import annotations

import httpx
import pytest

from support.rest_backend import MemoryBackend
from tailrace_gateway.rest.records.models import RECORDS_MAX

URL = "/v3/clusters/memory/topics/orders/records:batch"


@pytest.fixture(autouse=True)
def orders(backend: MemoryBackend) -> None:
    backend.set_topic("orders", 2)


async def test_a_batch_says_of_each_record_where_it_is_or_why_not(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    entries = [
        {"id": "a", "partition_id": 1, "value": {"type": "STRING", "data": "x"}},
        {"id": "b", "partition_id": 7, "value": {"data": 1}},
        {"id": "c", "partition_id": 1, "value": {"type": "BINARY", "data": "?"}},
        {"id": "d", "partition_id": 1, "value": {"data": {"n": 1}}},
    ]
    answer = await http.post(URL, json={"entries": entries})
    assert answer.status_code == 207
    body = answer.json()
    assert [(row["id"], row["error_code"], row["offset"]) for row in body["successes"]] == [
        ("a", 200, 0),
        ("d", 200, 1),
    ]
    assert body["successes"][0]["value"] == {"type": "STRING", "size": 1}
    assert [(row["id"], row["error_code"]) for row in body["failures"]] == [("b", 40403), ("c", 400)]
    assert "base64" in body["failures"][1]["message"]
    assert [record.value for record in backend.records["orders", 1]] == [b"x", b'{"n":1}']


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"id": "a"}, {"id": "a"}],
        [{"id": ""}],
        [{"id": "x" * 81}],
        [{"value": {"data": 1}}],
        [{"id": str(n)} for n in range(RECORDS_MAX + 1)],
    ],
)
async def test_a_batch_that_names_no_record_for_certain_is_refused_whole(
    http: httpx.AsyncClient, backend: MemoryBackend, entries: list[object]
) -> None:
    answer = await http.post(URL, json={"entries": entries})
    assert (answer.status_code, answer.json()["error_code"]) == (400, 400)
    assert backend.records == {}


async def test_a_batch_for_a_topic_that_is_not_there_is_not_found(http: httpx.AsyncClient) -> None:
    answer = await http.post(URL.replace("orders", "absent"), json={"entries": [{"id": "a"}]})
    assert (answer.status_code, answer.json()["error_code"]) == (404, 40403)


async def test_a_batch_takes_as_many_records_with_key_value_time_and_header(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    entries = [
        {
            "id": f"id-{n}",
            "partition_id": 1,
            "key": {"type": "STRING", "data": f"k{n}"},
            "value": {"type": "STRING", "data": "v"},
            "timestamp": "2026-11-29T00:00:00Z",
            "headers": [{"name": "h", "value": "eA=="}],
        }
        for n in range(RECORDS_MAX)
    ]
    answer = await http.post(URL, json={"entries": entries})
    assert answer.status_code == 207
    assert len(answer.json()["successes"]) == len(backend.records["orders", 1]) == RECORDS_MAX

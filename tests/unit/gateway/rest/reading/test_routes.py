"""Records over HTTP: where a page begins and ends, how records are shown, and what is refused."""

from __future__ import annotations

import base64
import random
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace.coordination.group_records import OffsetCommitted, encode
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.identity import ANONYMOUS
from tailrace.records.record import Record
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.hosts import HostRules
from tailrace_gateway.rest.reading.models import PARTITIONS_MAX, RecordList
from tailrace_gateway.rest.reading.places import READINGS_MAX_OF_ONE

TOPIC = "/kafka/v3/clusters/memory/topics/orders"
URL = f"{TOPIC}/records"


@pytest.fixture(autouse=True)
def orders(backend: MemoryBackend) -> None:
    backend.set_topic("orders", 2)
    for partition in (0, 1):
        backend.log("orders", partition).extend(
            Record(timestamp=1_000 * n, key=b"k", value=b'{"n": %d}' % n) for n in range(3)
        )


async def get(http: httpx.AsyncClient, url: str = URL, **params: Any) -> dict[str, Any]:
    answer = await http.get(url, params=params or None)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    place = found["metadata"]
    RecordList.model_validate({**found, "metadata": {"self_": place["self"], "next": place["next"]}})
    return found


def places(page: dict[str, Any]) -> list[tuple[int, int]]:
    return sorted((record["partition_id"], record["offset"]) for record in page["data"])


async def test_a_page_has_what_is_in_the_log(http: httpx.AsyncClient) -> None:
    page = await get(http)
    assert places(page) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert page["metadata"] == {"self": f"http://here{URL}", "next": None}
    assert page["cursor"] == "0:3,1:3"
    assert page["scanned_records"] == 6
    assert page["partitions"][0] == {"partition_id": 0, "start_offset": 0, "next_offset": 3, "end_offset": 3}


async def test_a_record_has_all_of_its_parts(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    headers = (("trace", b"\xff"), ("none", None))
    backend.records["orders", 0] = [Record(timestamp=1706933106789, key=b"\x00", value=None, headers=headers)]
    (record,) = (await get(http, partitions="0"))["data"]
    assert record == {
        "kind": "TailraceRecord",
        "topic_name": "orders",
        "partition_id": 0,
        "offset": 0,
        "timestamp": "2024-02-03T04:05:06.789Z",
        "timestamp_ms": 1706933106789,
        "key": {"type": "STRING", "data": "\x00", "size": 1},
        "value": None,
        "headers": [
            {"name": "trace", "value": {"type": "BINARY", "data": "/w==", "size": 1}},
            {"name": "none", "value": None},
        ],
        "decoded": None,
    }


async def test_a_time_that_no_calendar_has_is_a_number_alone(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.records["orders", 0] = [Record(timestamp=at) for at in (-1, 2**62)]
    found = (await get(http, partitions="0"))["data"]
    assert [(one["timestamp"], one["timestamp_ms"]) for one in found] == [(None, -1), (None, 2**62)]


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("auto", {"type": "JSON", "data": {"n": 0}}),
        ("text", {"type": "STRING", "data": '{"n": 0}'}),
        ("hex", {"type": "HEX", "data": b'{"n": 0}'.hex()}),
        ("base64", {"type": "BINARY", "data": base64.b64encode(b'{"n": 0}').decode()}),
    ],
)
async def test_values_are_shown_as_they_are_wanted(http: httpx.AsyncClient, encoding: str, shown: Any) -> None:
    page = await get(http, limit=1, value_encoding=encoding, key_encoding="hex")
    (record,) = page["data"]
    assert record["value"] == {**shown, "size": 8}
    assert record["key"] == {"type": "HEX", "data": "6b", "size": 1}


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("auto", [{"type": "JSON", "data": {"a": 1}}, {"type": "BINARY", "data": "/w=="}]),
        ("text", [{"type": "STRING", "data": '{"a":1}'}, {"type": "BINARY", "data": "/w=="}]),
        ("hex", [{"type": "HEX", "data": b'{"a":1}'.hex()}, {"type": "HEX", "data": "ff"}]),
    ],
)
async def test_headers_are_shown_as_they_are_wanted(
    http: httpx.AsyncClient, backend: MemoryBackend, encoding: str, shown: Any
) -> None:
    backend.records["orders", 0] = [Record(value=b"1", headers=(("a", b'{"a":1}'), ("b", b"\xff")))]
    (record, *_) = (await get(http, partitions="0", header_encoding=encoding))["data"]
    assert [header["value"] for header in record["headers"]] == [
        {**shown[0], "size": 7},
        {**shown[1], "size": 1},
    ]


async def test_pages_follow_each_other_to_the_end(http: httpx.AsyncClient) -> None:
    page = await get(http, limit=4)
    found = places(page)
    while page["metadata"]["next"] is not None:
        page = await get(http, page["metadata"]["next"])
        found += places(page)
    assert sorted(found) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize(
    ("params", "offsets"),
    [
        ({"from": "earliest"}, [0, 1, 2]),
        ({"from": "latest"}, []),
        ({"from": "1"}, [1, 2]),
        ({"from": "-1"}, [2]),
        ({"from": "s@1970-01-01T00:00:01+00:00"}, [1, 2]),
        ({"from": "earliest", "until": "2000"}, [0, 1]),
        ({"cursor": "1:2"}, [2]),
    ],
)
async def test_a_page_begins_and_ends_where_it_is_told(
    http: httpx.AsyncClient, params: dict[str, str], offsets: list[int]
) -> None:
    page = await get(http, f"{TOPIC}/partitions/1/records", **params)
    assert places(page) == [(1, offset) for offset in offsets]
    assert page["metadata"]["next"] is None


async def test_a_page_has_as_many_bytes_as_it_may(http: httpx.AsyncClient) -> None:
    page = await get(http, max_bytes=1)
    assert len(page["data"]) == 1
    assert page["metadata"]["next"] is not None


async def test_a_page_waits_for_a_record(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.on_wait = lambda: backend.log("orders", 1).append(Record(timestamp=1, value=b"new"))
    params: dict[str, Any] = {"from": "latest", "wait_ms": 1_000}
    page = await get(http, **params)
    assert places(page) == [(1, 3)]
    assert backend.waited_ms == 1_000
    assert page["metadata"]["next"] is None


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"from": "yesterday"}, "expected earliest"),
        ({"from": "7"}, "offset 7 is not in the log, which has 0 to 3"),
        ({"until": "later"}, "expected milliseconds"),
        ({"partitions": "x"}, "partitions:"),
        ({"cursor": "x"}, "cursor:"),
        *[({name: ""}, name) for name in ("from", "until", "partitions", "cursor", "filter")],
        ({"cursor": "0:1", "from": "1"}, "one place to begin"),
        ({"cursor": "0:1", "partitions": "0"}, "the cursor names them"),
        ({"limit": "0"}, "greater than"),
        ({"limit": "1001"}, "less than"),
        ({"wait_ms": "20001"}, "less than"),
        ({"isolation": "serializable"}, "isolation"),
        ({"value_encoding": "avro"}, "value_encoding"),
        ({"offset": "1"}, "no such field"),
    ],
)
async def test_a_query_that_makes_no_sense_is_refused(
    http: httpx.AsyncClient, backend: MemoryBackend, params: dict[str, str], why: str
) -> None:
    answer = await http.get(URL, params=params)
    assert answer.status_code == 400
    assert why in answer.json()["message"]
    assert backend.connections == 0


@pytest.mark.parametrize("url", [f"{TOPIC}/partitions/2/records", f"{URL}?partitions=2", f"{URL}?cursor=2:0"])
async def test_a_partition_that_does_not_exist_is_not_found(http: httpx.AsyncClient, url: str) -> None:
    assert (await http.get(url)).status_code == 404


async def test_the_partition_of_the_path_is_the_only_one(http: httpx.AsyncClient) -> None:
    for query in ("partitions=0", "cursor=0:1"):
        answer = await http.get(f"{TOPIC}/partitions/1/records?{query}")
        assert answer.status_code == 400
        assert "the path names the partition" in answer.json()["message"]


async def test_of_a_large_topic_some_partitions_are_read(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.set_topic("orders", PARTITIONS_MAX + 1)
    answer = await http.get(URL)
    assert answer.status_code == 400
    assert f"0-{PARTITIONS_MAX - 1}" in answer.json()["message"]
    assert len((await get(http, partitions=f"1-{PARTITIONS_MAX}"))["partitions"]) == PARTITIONS_MAX


async def test_transactions_are_read_as_wanted(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    await get(http, isolation="read_committed")
    levels = {m.isolation_level for _, m in backend.asked if hasattr(m, "isolation_level")}
    assert levels == {1}


async def test_offsets_that_are_gone_are_named(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.begins["orders", 0] = 2
    page = await get(http, cursor="0:1")
    assert places(page) == [(0, 2)]
    assert page["gaps"] == [{"partition_id": 0, "offset": 1, "next_offset": 2}]


async def test_a_cursor_behind_the_end_of_the_log_is_a_gap(http: httpx.AsyncClient) -> None:
    page = await get(http, cursor="0:9")  # the topic was made anew, or its log was truncated
    assert page["gaps"] == [{"partition_id": 0, "offset": 9, "next_offset": 3}]
    assert (page["cursor"], page["metadata"]["next"]) == ("0:3", None)


async def test_a_refusal_of_the_cluster_is_the_status(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.fail_next = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert (await http.get(URL)).status_code == 403
    assert backend.connections == 0


async def test_readings_of_one_address_have_a_bound(backend: MemoryBackend) -> None:
    app = create_app(backend, ManualClock(), random.Random(1), HostRules(["here"]))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as http:
        with ExitStack() as others:
            for _ in range(READINGS_MAX_OF_ONE):
                place = app.state.reading_places.reading("127.0.0.1", ANONYMOUS, is_stream=False)
                others.enter_context(place)
            for accept in ("application/json", "text/event-stream"):
                assert (await http.get(URL, headers={"accept": accept})).status_code == 503
        assert (await http.get(URL)).status_code == 200


async def test_a_filter_leaves_records_out_and_says_how_many_it_looked_at(http: httpx.AsyncClient) -> None:
    page = await get(http, filter='value.n == 1 && key == "k"')
    assert places(page) == [(0, 1), (1, 1)]
    assert (page["scanned_records"], page["filter_failures"], page["first_filter_failure"]) == (6, 0, None)


async def test_a_filter_goes_on_with_the_next_page(http: httpx.AsyncClient) -> None:
    page = await get(http, filter="value.n == 2", max_scanned_records=2)
    found, pages = places(page), 1
    while page["metadata"]["next"] is not None:
        page = await get(http, page["metadata"]["next"])
        found += places(page)
        pages += 1
    assert sorted(found) == [(0, 2), (1, 2)]
    assert pages == 3


async def test_what_a_filter_cannot_judge_is_counted(http: httpx.AsyncClient) -> None:
    page = await get(http, f"{TOPIC}/partitions/1/records", filter="value.m == 1")
    assert (page["data"], page["filter_failures"]) == ([], 3)
    assert page["first_filter_failure"] == "1:0: there is no field 'm'"


async def test_a_filter_that_is_wrong_is_refused(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    answer = await http.get(URL, params={"filter": "value.n =="})
    assert answer.status_code == 400
    assert "at 11: Syntax error" in answer.json()["message"]
    assert backend.connections == 0


async def test_records_of_the_own_topics_are_decoded(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.set_topic("__consumer_offsets", 1)
    commit = OffsetCommitted("billing", "orders", 1, 17, commit_timestamp_ms=5)
    key, value = encode(commit)
    backend.log("__consumer_offsets", 0).extend([Record(key=key, value=value), Record(key=b"", value=b"?")])
    committed, damaged = (await get(http, "/v3/clusters/memory/topics/__consumer_offsets/records"))["data"]
    assert committed["decoded"]["type"] == "OffsetCommitted"
    assert (committed["decoded"]["group_id"], committed["decoded"]["offset"]) == ("billing", 17)
    assert damaged["decoded"]["type"] == "damaged"

"""Producing over HTTP: data types, partitions, several records in one body, bounds."""

import asyncio
import base64
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as reference_murmur2

from support.rest_backend import MemoryBackend
from tailrace.clock import ManualClock
from tailrace.errors import ApiError, ErrorCode
from tailrace_gateway.rest.limits import BODY_BYTES_MAX, RestLimits
from tailrace_gateway.rest.records.json_objects import JsonObjects
from tailrace_gateway.rest.records.models import RECORDS_MAX
from tailrace_gateway.rest.records.partitioner import murmur2
from tailrace_gateway.rest.server import open_rest

URL = "/v3/clusters/memory/topics/orders/records"
JSON_TYPE = {"content-type": "application/json"}


@pytest.fixture(autouse=True)
def orders(backend: MemoryBackend) -> None:
    backend.set_topic("orders", 2)


async def test_a_record_is_written_and_its_place_answered(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    record = {
        "partition_id": 1,
        "headers": [{"name": "h", "value": base64.b64encode(b"\x00\xff").decode()}],
        "key": {"type": "STRING", "data": "ключ"},
        "value": {"type": "JSON", "data": {"a": [1, None]}},
        "timestamp": "2024-02-03T04:05:06.789Z",
    }
    answer = (await http.post(URL, json=record)).json()
    (written,) = backend.records["orders", 1]
    assert (written.key, written.value) == ("ключ".encode(), b'{"a":[1,null]}')
    assert written.headers == (("h", b"\x00\xff"),)
    assert written.timestamp == 1706933106789
    assert answer == {
        "error_code": 200,
        "cluster_id": "memory",
        "topic_name": "orders",
        "partition_id": 1,
        "offset": 0,
        "timestamp": "2024-02-03T04:05:06.789Z",
        "key": {"type": "STRING", "size": 8},
        "value": {"type": "JSON", "size": 14},
    }


async def test_binary_data_and_nulls(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    await http.post(URL, json={"partition_id": 0, "key": {"type": "BINARY", "data": "AP8="}, "value": None})
    await http.post(URL, json={"partition_id": 0, "value": {"type": "STRING", "data": ""}})
    assert [(r.key, r.value) for r in backend.records["orders", 0]] == [(b"\x00\xff", None), (None, b"")]


async def test_equal_keys_go_where_other_producers_send_them(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    for _ in range(3):
        await http.post(URL, json={"key": {"type": "STRING", "data": "k"}, "value": {"data": 1}})
    expected = (reference_murmur2(b"k") & 0x7FFFFFFF) % 2
    assert {pair: len(records) for pair, records in backend.records.items()} == {("orders", expected): 3}


async def test_several_records_in_one_body_are_answered_in_order(
    http: httpx.AsyncClient, backend: MemoryBackend
) -> None:
    rows = [{"partition_id": n % 2, "value": {"data": n}} for n in range(5)]
    body = "\n".join(map(json.dumps, rows[:3])) + "".join(map(json.dumps, rows[3:])) + " \n"
    answer = await http.post(URL, content=body, headers=JSON_TYPE)
    results = [json.loads(line) for line in answer.text.splitlines()]
    assert [(r["partition_id"], r["offset"]) for r in results] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
    assert [r.value for r in backend.records["orders", 0]] == [b"0", b"2", b"4"]
    produced = [message for _, message in backend.asked if type(message).__name__ == "ProduceRequest"]
    assert len(produced) == 2  # one batch per partition


async def test_of_several_records_each_has_its_own_outcome(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.fail_next = ApiError(ErrorCode.MESSAGE_TOO_LARGE)
    body = "".join(json.dumps({"partition_id": n, "value": {"data": n}}) for n in (0, 1))
    answer = await http.post(URL, content=body, headers=JSON_TYPE)
    assert answer.status_code == 200
    assert [json.loads(line)["error_code"] for line in answer.text.splitlines()] == [413, 200]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", 400),
        ("nonsense", 400),
        ('{"value": {"type": "AVRO", "data": 1}}', 400),
        ('{"value": {"type": "STRING", "data": 1}}', 400),
        ('{"value": {"type": "BINARY", "data": "*"}}', 400),
        ('{"headers": [{"name": "h", "value": "*"}]}', 400),
        ('{"timestamp": "yesterday"}', 400),
        ('{"timestamp": "1969-12-31T23:59:59Z"}', 400),
        ('{"timestamp": "0001-01-01T00:00:00+14:00"}', 400),
        ('{"timestamp": "9999-12-31T23:59:59-14:00"}', 400),
        ('{"value": {"type": "STRING", "data": "\\ud800"}}', 400),
        ('{"key": {"type": "JSON", "data": ["\\udfff"]}}', 400),
        ('{"headers": [{"name": "\\ud800", "value": null}]}', 400),
        ('{"value": {"type": "JSON", "data": NaN}}', 400),
        ('{"value": {"type": "JSON", "data": [1e999]}}', 400),
        ('{"partition_id": -1}', 400),
        ('{"partition_id": 2}', 40403),
        ("[" * 100_000, 400),
        (b"\xff", 400),
        ("[" * 100_000, 400),
        ('{"a": ' * 200, 400),
        ('{"value": {"data": 1', 400),
        ('{"value": {"data": tru}}', 400),
        ('{"value": {"data": 1, "schema_id": 7}}', 400),
        ('{"value": {"data": 1}, "partition": 1}', 400),
        ('{"value": {"data": "\xff"}}'.encode("latin-1"), 400),
    ],
)
async def test_bad_records_are_refused_and_nothing_is_written(
    http: httpx.AsyncClient, backend: MemoryBackend, body: str | bytes, expected: int
) -> None:
    answer = await http.post(URL, content=body, headers=JSON_TYPE)
    assert answer.json()["error_code"] == expected
    assert answer.status_code == int(str(expected)[:3])
    assert not backend.records


def lines(answer: httpx.Response) -> list[int]:
    assert answer.status_code == 200
    return [json.loads(line)["error_code"] for line in answer.text.splitlines()]


@pytest.mark.parametrize(
    "bad", ['{"value": {"type": "AVRO"}}', '{"partition_id": 7}', '{"valu": 1}', '{"value": {"data": tru}}', '{"a" 1}']
)
async def test_one_bad_record_does_no_harm_to_the_others(
    http: httpx.AsyncClient, backend: MemoryBackend, bad: str
) -> None:
    good = '{"partition_id": 0, "value": {"data": "}{"}}'
    answer = await http.post(URL, content=f"{bad} {good}{bad}\n{good}", headers=JSON_TYPE)
    refused = 40403 if "partition_id" in bad else 400
    assert lines(answer) == [refused, 200, refused, 200]
    assert [r.value for r in backend.records["orders", 0]] == [b'"}{"', b'"}{"']


async def test_what_is_no_object_ends_the_body_and_says_so(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    good = '{"partition_id": 0}'
    assert lines(await http.post(URL, content=f"{good}{good}, {good}", headers=JSON_TYPE)) == [200, 200, 400]
    assert lines(await http.post(URL, content=f"{good}{{", headers=JSON_TYPE)) == [200, 400]
    many = await http.post(URL, content=good * (RECORDS_MAX + 1), headers=JSON_TYPE)
    assert lines(many) == [200] * RECORDS_MAX + [400]
    assert len(backend.records["orders", 0]) == 3 + RECORDS_MAX


async def test_a_body_that_is_too_large_ends_after_the_records_that_came_before(http: httpx.AsyncClient) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b'{"partition_id": 0}'
        while True:
            yield b" " * (BODY_BYTES_MAX // 8)

    assert lines(await http.post(URL, content=endless(), headers=JSON_TYPE)) == [200, 413]


async def test_each_record_of_a_stream_is_answered_before_the_next_is_sent(backend: MemoryBackend) -> None:
    async with open_rest(["127.0.0.1"], 0, backend, ManualClock(), random.Random(1)) as address:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST {URL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        for number, (sent, code) in enumerate(
            [(b'{"valu": 1}', 400), (b"{}", 200), (b'{"value":', 0), (b"null}", 200)]
        ):
            writer.write(b"%x\r\n%b\r\n" % (len(sent), sent))
            if not number:
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
                await reader.readuntil(b"\r\n\r\n")
            if code:
                await reader.readline()  # a chunk's size
                assert json.loads(await reader.readuntil(b"}\n"))["error_code"] == code
                await reader.readline()
        writer.write(b"0\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"0\r\n\r\n"
        writer.close()


@given(st.lists(st.recursive(st.text() | st.integers(), lambda one: st.lists(one) | st.dictionaries(st.text(), one))))
def test_objects_are_cut_out_of_any_pieces(values: list[Any]) -> None:
    objects = [{"value": value} for value in values]
    text = "".join(f"{json.dumps(one, ensure_ascii=False)}\n " for one in objects).encode()
    for size in (1, 3, 1 << 20):
        cut = JsonObjects(1 << 20)
        found = [one for at in range(0, len(text), size) for one in cut.feed(text[at : at + size])]
        cut.feed(b" ")
        assert [json.loads(one) for one in found] == objects
        assert cut.is_between and cut.failure is None


async def test_a_single_refused_record_is_the_answers_status(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    backend.fail_next = ConnectionResetError("gone")
    assert (await http.post(URL, json={"value": {"data": 1}})).status_code == 503
    backend.set_topic("orders", 2, leader=-1)
    assert (await http.post(URL, json={"value": {"data": 1}})).json()["error_code"] == 50302
    assert (await http.post(URL.replace("orders", "none"), json={"value": None})).json()["error_code"] == 40403


async def test_only_json_is_taken_so_that_a_foreign_page_cannot_post(http: httpx.AsyncClient) -> None:
    answer = await http.post(URL, content="{}", headers={"content-type": "text/plain"})
    assert answer.status_code == 415


async def test_a_body_above_the_bound_is_refused_announced_or_not(http: httpx.AsyncClient) -> None:
    announced = await http.post(URL, content=b" " * (BODY_BYTES_MAX + 1), headers=JSON_TYPE)
    assert (announced.status_code, announced.json()["error_code"]) == (413, 413)

    async def endless() -> object:
        for _ in range(40):
            yield b" " * (BODY_BYTES_MAX // 32)

    dribbled = await http.post(URL, content=endless(), headers=JSON_TYPE)  # type: ignore[arg-type]
    assert (dribbled.status_code, dribbled.json()["error_code"]) == (413, 413)
    topics = URL.removesuffix("/orders/records")
    assert (await http.post(topics, content=endless(), headers=JSON_TYPE)).status_code == 413  # type: ignore[arg-type]


async def test_a_request_that_takes_too_long_is_ended() -> None:
    clock = ManualClock()

    async def never(scope: object, receive: object, send: object) -> None:
        await clock.sleep(1)

    transport = httpx.ASGITransport(RestLimits(never, request_seconds=0))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        assert (await client.get("/")).status_code == 503


@given(st.binary())
def test_murmur2_is_kafkas(data: bytes) -> None:
    assert murmur2(data) == reference_murmur2(data) & 0xFFFFFFFF

"""Records as events: what comes, the comment where nothing does, going on after a loss, and the end with the client."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from support.rest_backend import MemoryBackend
from support.waiting import HUNG_S
from tailrace.clock import ManualClock
from tailrace.errors import ApiError, ErrorCode
from tailrace.records.record import Record
from tailrace_gateway.rest.app import create_app
from tailrace_gateway.rest.hosts import HostRules
from tailrace_gateway.rest.reading.stream import STREAM_MS_MAX

PATH = "/v3/clusters/memory/topics/orders/records"


class Client:
    """An HTTP client that reads a stream and can go away."""

    def __init__(
        self, backend: MemoryBackend, clock: ManualClock, query: str = "", method: str = "GET", **headers: str
    ) -> None:
        app = create_app(backend, clock, random.Random(1), HostRules(["here"]))
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.gone = asyncio.Event()
        self._asked = False
        given = {"host": "here", "accept": "text/event-stream", **{k.replace("_", "-"): v for k, v in headers.items()}}
        self.scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": PATH,
            "raw_path": PATH.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("here", 80),
            "root_path": "",
        }
        self.running = asyncio.create_task(app(self.scope, self._receive, self.sent.put))  # type: ignore[arg-type]

    async def _receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def next(self) -> str:
        """The next piece of the answer's body."""
        while (message := await self.sent.get())["type"] != "http.response.body":
            assert message["status"] == 200
        return str(message["body"].decode())

    async def go(self) -> None:
        self.gone.set()
        await self.running


@pytest.fixture
def backend() -> MemoryBackend:
    made = MemoryBackend()
    made.set_topic("orders", 1)
    made.log("orders", 0).append(Record(timestamp=1, value=b"old"))
    return made


def fields(event: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in event.strip().splitlines())


async def test_a_record_that_comes_is_an_event(backend: MemoryBackend) -> None:
    client = Client(backend, ManualClock())
    assert await client.next() == "retry: 1000\nid: 0:1\n\n"
    backend.log("orders", 0).append(Record(timestamp=2, value=b"two\nlines"))
    found = fields(await client.next())
    assert (found["id"], found["event"]) == ("0:2", "record")
    assert json.loads(found["data"])["value"] == {"type": "STRING", "data": "two\nlines", "size": 9}
    await client.go()
    assert backend.connections == 0


async def test_a_stream_that_waits_shows_that_it_lives(backend: MemoryBackend) -> None:
    clock = ManualClock()
    backend.on_wait = lambda: clock.advance(1_000)
    client = Client(backend, clock)
    await client.next()
    assert await client.next() == ": heartbeat\nid: 0:1\n\n"
    assert clock.monotonic_ms() >= 10_000
    await client.go()


@pytest.mark.parametrize(
    ("query", "headers"), [("from=earliest", {}), ("", {"last_event_id": "0:0"}), ("cursor=0:0", {})]
)
async def test_a_stream_begins_where_it_is_told(backend: MemoryBackend, query: str, headers: dict[str, str]) -> None:
    client = Client(backend, ManualClock(), query, **headers)
    await client.next()
    assert json.loads(fields(await client.next())["data"])["offset"] == 0
    await client.go()


async def test_offsets_that_are_gone_are_an_event_once(backend: MemoryBackend) -> None:
    clock = ManualClock()
    backend.on_wait = lambda: clock.advance(1_000)
    backend.begins["orders", 0] = 1
    client = Client(backend, clock, last_event_id="0:0")
    begin, gap = (await client.next()).strip().split("\n\n")
    assert begin == "retry: 1000\nid: 0:1"
    assert fields(gap)["event"] == "gap"
    assert json.loads(fields(gap)["data"]) == {"partition_id": 0, "offset": 0, "next_offset": 1}
    assert await client.next() == ": heartbeat\nid: 0:1\n\n"
    await client.go()


async def test_an_error_in_the_middle_is_the_last_event(backend: MemoryBackend) -> None:
    client = Client(backend, ManualClock())
    await client.next()
    backend.fail_next = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    found = fields(await client.next())
    assert found["event"] == "error"
    assert json.loads(found["data"])["error_code"] == 40301
    assert await client.next() == ""
    await client.running
    assert backend.connections == 0


async def test_a_stream_has_not_the_deadline_of_a_request(backend: MemoryBackend) -> None:
    client = Client(backend, ManualClock())
    await client.next()
    assert client.scope["deadline"].when() is None
    await client.go()


async def test_a_stream_ends_after_its_time(backend: MemoryBackend) -> None:
    clock = ManualClock()
    backend.on_wait = lambda: clock.advance(1_000)
    client = Client(backend, clock)
    while await client.next():
        pass
    await client.running
    assert clock.monotonic_ms() == STREAM_MS_MAX


async def test_a_stream_with_a_filter_says_where_it_stands(backend: MemoryBackend) -> None:
    clock = ManualClock()
    backend.on_wait = lambda: clock.advance(1_000)
    client = Client(backend, clock, "from=earliest&filter=value%3D%3D%22new%22")
    await client.next()
    assert await client.next() == ": heartbeat\nid: 0:1\n\n"
    found = fields(await client.next())
    assert (found["id"], found["event"]) == ("0:1", "progress")
    assert json.loads(found["data"])["scanned_records"] == 1
    await client.go()


async def test_a_fault_of_this_program_is_not_kept_quiet(backend: MemoryBackend) -> None:
    client = Client(backend, ManualClock())
    await client.next()
    backend.fail_next = KeyError("a fault")
    with pytest.raises(KeyError):
        await client.running
    assert backend.connections == 0


async def test_head_of_a_stream_ends_with_its_head(backend: MemoryBackend) -> None:
    backend.set_topic("orders", 1)
    client = Client(backend, ManualClock(), method="HEAD")
    async with asyncio.timeout(HUNG_S):
        await client.running
    start, body = client.sent.get_nowait(), client.sent.get_nowait()
    assert (start["status"], client.sent.empty()) == (200, True)
    assert (b"content-type", b"text/event-stream; charset=utf-8") in start["headers"]
    assert (body.get("body"), body.get("more_body", False)) == (b"", False)
    assert backend.connections == 0

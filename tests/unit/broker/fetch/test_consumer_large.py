"""Records that leave by sendfile, and records that must come from the disk first: order, bounds, failures."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from support.broker import SECRET, Running, batch, running
from support.waiting import HUNG_S
from tailrace.errors import ErrorCode
from tailrace.log.filesystem.real import RealFile
from tailrace.log.read import Slice
from tailrace.net.address import Address
from tailrace.net.authentication.client import log_in
from tailrace.net.transport.outbox import Outbox
from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.messages import FetchResponse, ListOffsetsRequest

LARGE = 300_000
ONE = {"max_bytes": LARGE // 2, "partition_max_bytes": LARGE // 2}  # one large batch an answer


async def filled(broker: Running) -> list[bytes]:
    """Partition 0 holds three large batches and a small one."""
    values = [bytes([n]) * LARGE for n in range(3)] + [b"small"]
    await broker.produce(0, *(batch(value) for value in values))
    return values


class Raw:
    """A client that reads only when told to."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.loop = asyncio.get_running_loop()

    @classmethod
    async def open(cls, address: Address) -> Raw:
        sock = socket.socket(socket.AF_UNIX if address.is_unix else socket.AF_INET)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(
            sock, address.host if address.is_unix else (address.host, address.port)
        )
        if not address.is_unix:
            await log_in(sock, SECRET)
        return cls(sock)

    async def send(self, *frames: bytes) -> None:
        await self.loop.sock_sendall(self.sock, b"".join(frames))

    async def read(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = await self.loop.sock_recv(self.sock, min(count - len(parts), 10_000))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)

    async def row(self, correlation_id: int) -> Any:
        """The partition of the next answer, which must be the one of that request."""
        (size,) = struct.unpack(">i", await self.read(4))
        frame = await self.read(size)
        assert codec.response_correlation_id(frame) == correlation_id
        answer: FetchResponse = codec.decode_response(
            ApiKey.FETCH, 12, codec.response_body(ApiKey.FETCH, 12, memoryview(frame))
        )
        return answer.responses[0].partitions[0]

    async def records(self, correlation_id: int) -> bytes:
        """The same without an error."""
        row = await self.row(correlation_id)
        assert row.error_code == 0
        assert isinstance(row.records, bytes)
        return row.records

    def close(self) -> None:
        self.sock.close()


def fetch_frame(broker: Running, offset: int, correlation_id: int) -> bytes:
    return codec.encode_request(broker.fetch_request(0, offset, session_epoch=-1, **ONE), 12, correlation_id, "raw")


@pytest.mark.parametrize("unix", [True, False])
async def test_large_and_small_answers_keep_their_order_to_a_slow_reader(tmp_path: Path, unix: bool) -> None:
    async with running(tmp_path, internal_listen="" if unix else "127.0.0.1:0") as broker:
        values = await filled(broker)
        client = await Raw.open(broker.address)
        offsets = [0, 3, 1, 3, 3, 2, 0, 3] * 4
        await client.send(*(fetch_frame(broker, offset, n) for n, offset in enumerate(offsets)))
        for n, offset in enumerate(offsets):
            assert values[offset][:200] in await client.records(n)
        client.close()


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a client did not take all of an answer at once."""
    event, send = asyncio.Event(), Outbox.send

    def sent(self: Outbox, pieces: Iterable[Any]) -> bool:
        everything = send(self, pieces)
        if not everything:
            event.set()
        return everything

    monkeypatch.setattr(Outbox, "send", sent)
    return event


async def test_a_client_that_does_not_read_is_not_read_from(tmp_path: Path, blocked: asyncio.Event) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        client = await Raw.open(broker.address)
        requests = 200
        await client.send(*(fetch_frame(broker, 0, n) for n in range(requests)))
        await blocked.wait()
        # Another client is served meanwhile, so the loop has turned since.
        assert (await broker.fetch(0, 3)).error_code == 0
        assert broker.broker.metrics.bytes_out < requests * LARGE / 4
        for n in range(requests):
            assert len(await client.records(n)) >= LARGE
        client.close()


async def test_an_answer_on_its_way_outlives_its_segment(tmp_path: Path, blocked: asyncio.Event) -> None:
    """Its descriptor is not given to another file before the last byte has left."""
    async with running(tmp_path) as broker:
        values = await filled(broker)
        client = await Raw.open(broker.address)
        await client.send(*(fetch_frame(broker, 0, n) for n in range(100)))
        await blocked.wait()
        served = broker.broker.metrics.bytes_out // LARGE
        broker.follower.move(topics={}, topic_names={})
        others = [(tmp_path / f"other-{n}").open("wb+") for n in range(20)]
        for other in others:
            other.write(b"?" * 2 * LARGE)
            other.flush()
        rows = [await client.row(n) for n in range(100)]
        assert all(row.records[-LARGE:].count(values[0][:1]) >= LARGE - 100 for row in rows[:served])
        assert {row.error_code for row in rows[served:]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        for other in others:
            other.close()
        client.close()


async def test_a_client_that_leaves_in_the_middle_of_an_answer_harms_nobody(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await filled(broker)
        client = await Raw.open(broker.address)
        await client.send(*(fetch_frame(broker, 0, n) for n in range(50)))
        await client.read(1000)
        client.close()
        assert (await broker.fetch(0, 3)).error_code == 0


async def test_a_segment_that_ends_too_early_closes_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sendfile = os.sendfile

    def cut(out: int, source: int, offset: int, count: int) -> int:
        return sendfile(out, source, offset, 1000) if count > LARGE - 2000 else 0

    async with running(tmp_path) as broker:
        await filled(broker)
        monkeypatch.setattr(os, "sendfile", cut)
        client = await Raw.open(broker.address)
        await client.send(fetch_frame(broker, 0, 1))
        with pytest.raises((EOFError, ConnectionResetError)):
            await client.records(1)
        client.close()


class ColdDisk:
    """Nothing is in the page cache until it was warmed, which takes as long as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: OSError | None = None) -> None:
        self.asked = threading.Event()
        self.go = threading.Event()
        self.warm: set[int] = set()
        monkeypatch.setattr(RealFile, "cached", lambda file, length, position: position in self.warm)
        monkeypatch.setattr(RealFile, "pread_cached", lambda file, length, at: self.pread_cached(file, length, at))
        monkeypatch.setattr(RealFile, "warm", lambda file, length, position: self.wait(position))
        self.error = error

    def pread_cached(self, file: Any, length: int, position: int) -> bytes | None:
        return file.pread(length, position) if position in self.warm else None

    def wait(self, position: int) -> None:
        self.asked.set()
        self.go.wait(HUNG_S)
        if self.error is not None:
            raise self.error
        self.warm.add(position)


@pytest.mark.parametrize("offset", [0, 3])
async def test_a_cold_read_waits_in_a_thread_while_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    async with running(tmp_path) as broker:
        values = await filled(broker)
        disk = ColdDisk(monkeypatch)
        cold = asyncio.create_task(broker.fetch(0, offset, **ONE))
        await asyncio.to_thread(disk.asked.wait, HUNG_S)
        assert (await produced(broker, b"meanwhile")).error_code == 0
        assert not cold.done()
        disk.go.set()
        assert values[offset][:200] in (await cold).records
        assert 1 <= broker.broker.cold_reads.count <= 2  # the heads of what follows, then the records


async def produced(broker: Running, value: bytes) -> Any:
    """Appends by another connection than the one that waits."""
    other = broker.again()
    try:
        return await other.produce(1, batch(value))
    finally:
        await other.client.close()


async def test_a_cold_read_that_fails_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Slice) -> bytes:
        raise OSError(5, "Input/output error")

    async with running(tmp_path) as broker:
        await filled(broker)
        disk = ColdDisk(monkeypatch, OSError(5, "Input/output error"))
        disk.go.set()
        monkeypatch.setattr(Slice, "read", fail)
        assert (await broker.fetch(0, 3)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_requests_behind_a_cold_read_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as broker:
        values = await filled(broker)
        disk = ColdDisk(monkeypatch)
        client = await Raw.open(broker.address)
        list_offsets = codec.encode_request(ListOffsetsRequest(topics=[]), 7, 2, "raw")
        await client.send(fetch_frame(broker, 1, 1), list_offsets, fetch_frame(broker, 2, 3))
        await asyncio.to_thread(disk.asked.wait, HUNG_S)
        disk.go.set()
        assert values[1][:200] in await client.records(1)
        (size,) = struct.unpack(">i", await client.read(4))
        assert codec.response_correlation_id(await client.read(size)) == 2
        assert values[2][:200] in await client.records(3)
        client.close()


@pytest.mark.parametrize("gone", [0, 131_072, 400_000])
def test_what_left_the_page_cache_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: int) -> None:
    """The pages from `gone` on, as the kernel says it of a read that must not wait: short, or not at all."""

    def preadv(fd: int, buffers: list[bytearray], position: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        if position >= gone:
            raise BlockingIOError
        data = os.pread(fd, min(len(buffers[0]), gone - position), position)
        buffers[0][: len(data)] = data
        return len(data)

    file = RealFile(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT)
    file.pwritev([b"x" * 500_000], 0)
    assert file.cached(500_000, 0)
    assert file.pread_cached(500_000, 0) == b"x" * 500_000
    assert file.pread_cached(10, 499_995) is None  # shorter than announced
    monkeypatch.setattr(os, "preadv", preadv)
    assert not file.cached(500_000, 0)
    assert file.pread_cached(500_000, 0) is None
    if gone:
        assert file.cached(gone, 0)
        assert file.pread_cached(gone, 0) == b"x" * gone
    monkeypatch.undo()
    file.warm(500_000, 0)
    assert file.cached(500_000, 0)


def test_a_file_system_without_such_reads_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def unsupported(*arguments: Any) -> int:
        asked.append(arguments)
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    file = RealFile(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT)
    file.pwritev([b"abc"], 0)
    monkeypatch.setattr(os, "preadv", unsupported)
    assert file.pread_cached(3, 0) == b"abc"
    assert file.pread_cached(2, 1) == b"bc"
    assert file.cached(3, 0)
    assert len(asked) == 1


def test_a_disk_that_fails_a_probe_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> int:
        raise OSError(errno.EIO, "Input/output error")

    file = RealFile(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT)
    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(OSError, match="Input/output"):
        file.cached(3, 0)
    with pytest.raises(OSError, match="Input/output"):
        file.pread_cached(3, 0)

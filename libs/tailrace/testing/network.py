"""The network between clients and a cluster: a TCP proxy in front of each node, which cuts, hangs and slows down."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from tailrace.runtime.clock import SystemClock

_CHUNK_BYTES = 65_536
_LOWEST, _HIGHEST = 20_000, 31_000  # below the kernel's ephemeral ports: no client's socket takes one meanwhile
_HOST = "127.0.0.1"
_TRIES = 200


@dataclass(eq=False)
class _Link:
    """One node's proxy. All fields are the loop's, but those that a fault sets."""

    listener: socket.socket
    target: tuple[str, int] = (_HOST, 0)
    cut: bool = False
    delay_ms: float = 0
    bytes_per_second: float = 0
    flows: asyncio.Event = field(default_factory=asyncio.Event)
    ends: set[asyncio.StreamWriter] = field(default_factory=set)


class Network:
    """Faults hold for connections that are open and for new ones; each ends with its `with` block.

    `node` is the id of a broker, which clients reach at its own port of the gateway; None means all nodes.
    """

    def __init__(self, nodes: int) -> None:
        self._links = [_Link(listener) for listener in _neighbours(nodes)]
        self._loop = asyncio.new_event_loop()
        self._clock = SystemClock()
        self._accepting: list[asyncio.Task[None]] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="tailrace-network", daemon=True)
        self._thread.start()
        for link in self._links:
            asyncio.run_coroutine_threadsafe(self._serve(link), self._loop).result()

    @property
    def port(self) -> int:
        """Of node 0; node n is at port + n."""
        port: int = self._links[0].listener.getsockname()[1]
        return port

    def lead_to(self, host: str, port: int) -> None:
        """Where node 0 really is."""
        for number, link in enumerate(self._links):
            link.target = (host, port + number)

    @contextmanager
    def cut(self, node: int | None = None) -> Iterator[None]:
        """Breaks all connections; new ones are broken at once."""
        with self._fault(node, "cut", True) as links:
            for link in links:
                self._loop.call_soon_threadsafe(_abort, link)
            yield

    @contextmanager
    def hang(self, node: int | None = None) -> Iterator[None]:
        """Nothing arrives in either direction, and no connection breaks: a cable without a plug."""
        links = self._chosen(node)
        self._set_flowing(links, False)
        try:
            yield
        finally:
            self._set_flowing(links, True)

    @contextmanager
    def slow(self, node: int | None = None, *, delay_ms: float = 0, bytes_per_second: float = 0) -> Iterator[None]:
        """`delay_ms` more in each direction, and so many bytes a second for each connection; 0 is no limit."""
        with self._fault(node, "delay_ms", delay_ms), self._fault(node, "bytes_per_second", bytes_per_second):
            yield

    def close(self) -> None:
        """Ends everything."""

        async def end() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for link in self._links:
                _abort(link)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for link in self._links:
            link.listener.close()

    def _chosen(self, node: int | None) -> list[_Link]:
        if node is None:
            return self._links
        if not 0 <= node < len(self._links):
            raise ValueError(f"there is no node {node}, only 0 to {len(self._links) - 1}")
        return [self._links[node]]

    @contextmanager
    def _fault(self, node: int | None, name: str, value: float | bool) -> Iterator[list[_Link]]:
        links = self._chosen(node)
        before = [getattr(link, name) for link in links]
        for link in links:
            setattr(link, name, value)
        try:
            yield links
        finally:
            for link, old in zip(links, before, strict=True):
                setattr(link, name, old)

    def _set_flowing(self, links: list[_Link], flowing: bool) -> None:
        for link in links:
            self._loop.call_soon_threadsafe(link.flows.set if flowing else link.flows.clear)

    # -- in the loop's thread -------------------------------------------------------------------------------------

    async def _serve(self, link: _Link) -> None:
        link.flows.set()
        link.listener.setblocking(False)
        self._accepting.append(self._loop.create_task(self._accept(link)))

    async def _accept(self, link: _Link) -> None:
        joined: set[asyncio.Task[None]] = set()
        while True:
            client, _ = await self._loop.sock_accept(link.listener)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._join(link, client))
            joined.add(task)
            task.add_done_callback(joined.discard)

    async def _join(self, link: _Link, client: socket.socket) -> None:
        if link.cut:
            client.close()
            return
        reader, writer = await asyncio.open_connection(sock=client, limit=_CHUNK_BYTES)
        link.ends.add(writer)
        try:
            there_reader, there_writer = await asyncio.open_connection(*link.target, limit=_CHUNK_BYTES)
        except OSError:
            writer.transport.abort()
            link.ends.discard(writer)
            return
        link.ends.add(there_writer)
        try:
            await asyncio.gather(self._pump(link, reader, there_writer), self._pump(link, there_reader, writer))
        finally:
            for end in (writer, there_writer):
                end.transport.abort()
                link.ends.discard(end)

    async def _pump(self, link: _Link, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(_CHUNK_BYTES):
                pause_ms = link.delay_ms
                if link.bytes_per_second:
                    pause_ms += 1000 * len(data) / link.bytes_per_second
                if pause_ms:
                    await self._clock.sleep(pause_ms)
                await link.flows.wait()
                sink.write(data)
                await sink.drain()
            sink.write_eof()
        except OSError:
            sink.transport.abort()  # and so the other direction ends


def _abort(link: _Link) -> None:
    for end in list(link.ends):
        end.transport.abort()


def _neighbours(count: int) -> list[socket.socket]:
    """Listeners on neighbouring ports. Raises OSError."""
    for _ in range(_TRIES):
        first = random.SystemRandom().randrange(_LOWEST, _HIGHEST - count)
        with ExitStack() as held, suppress(OSError):
            found = [
                held.enter_context(socket.create_server((_HOST, port), backlog=128))
                for port in range(first, first + count)
            ]
            held.pop_all()
            return found
    raise OSError(f"no {count} neighbouring free ports between {_LOWEST} and {_HIGHEST}")

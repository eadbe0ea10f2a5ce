"""A gateway with a cluster made of scripts: an image that a test writes, and nodes that answer as it says."""

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from support.ports import free_ports
from support.sasl import authenticator
from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage, ServiceImage, ShardImage, TopicImage
from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address
from tailrace.net.limits.deadline_check import DeadlineCheck
from tailrace.net.listeners.listener import ClientListener
from tailrace.runtime.clock import SystemClock
from tailrace.wire import codec
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.header import parse_request_header
from tailrace.wire.messages import ApiVersionsResponse, PreambleRequest
from tailrace_gateway.answering import AnsweringGateway
from tailrace_gateway.gateway import Advertised, GatewayLimits, Parts
from tailrace_gateway.listener import GatewayListener, InternalListener

BOOT_ID = "boot"
TOPIC_ID = UUID(int=7)


class ScriptedFollower:
    """The follower's twin: the image is what the test last put in."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.controller: Address | None = None
        self.controller_id, self.controller_epoch, self.stale = -1, -1, False
        self.asked: list[Any] = []
        self.committed: int | None = None  # up to where a controller would say the log is committed
        self.caught_up = 0
        self.answer: Callable[[Any], Any] | None = None
        self._subscribers: list[Callable[[MetadataImage, MetadataImage], None]] = []
        self._changed = asyncio.Event()

    def subscribe(self, callback: Callable[[MetadataImage, MetadataImage], None]) -> None:
        self._subscribers.append(callback)

    def put(self, image: MetadataImage) -> None:
        old, self.image = self.image, image
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for callback in self._subscribers:
            callback(old, image)

    async def wait_for(self, predicate: Callable[[MetadataImage], bool], timeout_ms: float) -> MetadataImage:
        async with asyncio.timeout(timeout_ms / 1000):
            while not predicate(self.image):
                await self._changed.wait()
        return self.image

    async def catch_up(self, timeout_ms: float) -> bool:
        self.caught_up += 1
        if self.committed is None:
            return False
        committed = self.committed
        try:
            await self.wait_for(lambda image: image.offset >= committed, timeout_ms)
        except TimeoutError:
            return False
        return True

    async def ask_controller(self, message: Any, timeout_ms: float) -> Any:
        self.asked.append(message)
        if self.answer is None:
            raise ConnectionError("no controller")
        return self.answer(message)


def _served() -> ApiVersionsResponse:
    """Every API of Tailrace."""
    row = ApiVersionsResponse.ApiVersion
    rows = [
        row(api_key=api.key, min_version=api.min_version, max_version=api.max_version) for api in INTERNAL_APIS.values()
    ]
    return ApiVersionsResponse(api_keys=rows)


class Peer:
    """A service on a Unix socket. Every frame after the preamble and the first ApiVersions goes to `script`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.frames: list[bytes] = []
        self.received = asyncio.Queue[Any]()
        self.preambles: list[PreambleRequest] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.script: Callable[[Any, bytes, asyncio.StreamWriter], Awaitable[None]] = self.echo
        self.server: asyncio.AbstractServer | None = None

    async def start(self) -> "Peer":
        self.server = await asyncio.start_unix_server(self._serve, str(self.path), limit=1 << 20)
        return self

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint(f"UNIX-{BOOT_ID}", str(self.path), 0),)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                header = parse_request_header(frame)
                if header.api_key == 10000:
                    request = codec.decode_request(10000, 0, frame[header.body_offset :])
                    self.preambles.append(request)
                    writer.write(struct.pack(">iibhb", 8, header.correlation_id, 0, 0, 0))
                    continue
                if (header.api_key, header.api_version) == (ApiKey.API_VERSIONS, 0):  # how one service meets another
                    writer.write(codec.encode_response(_served(), 0, header.correlation_id))
                    continue
                self.frames.append(frame)
                self.received.put_nowait(header)
                await self.script(header, frame, writer)
        writer.close()

    async def echo(self, header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        """Answers with the correlation id and the frame itself as the body."""
        writer.write(struct.pack(">ii", 4 + len(frame), header.correlation_id) + frame)
        await writer.drain()

    async def silent(self, header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        """Never answers."""

    def hang_up(self) -> None:
        """Closes every connection at once, as a death would."""
        for writer in self.writers:
            writer.transport.abort()

    async def stop(self) -> None:
        if self.server is not None:
            self.server.close()
            await asyncio.sleep(0)  # who was accepted in this turn has its writer in the next
            self.hang_up()
            for writer in self.writers:
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
            await self.server.wait_closed()
            self.server = None
        self.path.unlink(missing_ok=True)


class Client:
    """A raw socket on one node's port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.transport: Any = writer.transport  # one for both directions

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, bytes]:
        """(correlation id, the rest of the answer's frame)."""
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        frame = await self.reader.readexactly(size)
        return struct.unpack_from(">i", frame)[0], frame[4:]

    async def ask(self, message: Any, version: int, correlation_id: int = 1) -> Any:
        """One decoded answer."""
        self.send(codec.encode_request(message, version, correlation_id, "test"))
        got, rest = await self.answer()
        assert got == correlation_id
        frame = struct.pack(">i", got) + rest
        return codec.decode_response(
            message.API_KEY, version, codec.response_body(message.API_KEY, version, memoryview(frame))
        )

    async def closed(self) -> bool:
        """Waits for the gateway to close; False if bytes came instead."""
        try:
            ended = await self.reader.read(1) == b""
        except ConnectionError:
            ended = True
        if ended:
            self.writer.close()
        return ended


class World:
    """A gateway on free ports of 127.0.0.1, and what stands behind it."""

    def __init__(self, directory: Path, limits: GatewayLimits, meter_of: Any, advertised: Advertised) -> None:
        self.directory = directory
        self.follower = ScriptedFollower(MetadataImage(offset=0, epoch=1, cluster_id="cluster-of-the-test"))
        self.log = structlog.testing.CapturingLogger()
        parts = Parts(
            follower=self.follower,
            clock=SystemClock(),
            sasl=authenticator(SystemClock()),
            random=random.Random(1),
            log=structlog.wrap_logger(self.log, processors=[]),
            meter_of=meter_of,
            limits=limits,
            advertised=advertised,
            boot_id=BOOT_ID,
        )
        self.gateway = AnsweringGateway(parts)
        self.listener = GatewayListener(
            self.gateway, ClientListener("PLAINTEXT", "PLAINTEXT", ("127.0.0.1",), free_ports(8))
        )
        self.listener.open_node(0)
        self.follower.subscribe(self.gateway.image_changed)
        self.follower.subscribe(self.listener.image_changed)
        self.deadline_check: DeadlineCheck | None = None
        self.internal: InternalListener | None = None
        self.peers: list[Peer] = []
        self.clients: list[Client] = []

    async def peer(self, name: str) -> Peer:
        peer = await Peer(self.directory / f"{name}.sock").start()
        self.peers.append(peer)
        return peer

    def put(self, **changes: Any) -> None:
        """A new image with these fields changed, one offset further."""
        image = self.follower.image
        fields = {name: getattr(image, name) for name in image.__dataclass_fields__}
        self.follower.put(MetadataImage(**{**fields, "offset": image.offset + 1, **changes}))

    def put_broker(self, node_id: int, peer: Peer, epoch: int = 1, fenced: bool = False) -> None:
        broker = BrokerImage(node_id, epoch, UUID(int=epoch), peer.endpoints, None, fenced)
        self.put(brokers={**self.follower.image.brokers, node_id: broker})

    def put_live_broker(self, node_id: int) -> None:
        """One that nobody can reach."""
        self.put(
            brokers={**self.follower.image.brokers, node_id: BrokerImage(node_id, 1, UUID(int=1), (), None, False)}
        )

    def put_topic(self, name: str, leaders: list[int], topic_id: UUID = TOPIC_ID) -> None:
        partitions = tuple(PartitionImage((max(n, 0),), (n,) if n >= 0 else (), n, 0, 0) for n in leaders)
        topics = {**self.follower.image.topics, name: TopicImage(name, topic_id, partitions)}
        self.put(topics=topics, topic_names={topic.topic_id: topic.name for topic in topics.values()})

    def put_coordinators(
        self, owners: dict[int, int], peers: dict[int, Peer], topic: str = "__consumer_offsets"
    ) -> None:
        """Shard -> coordinator id, coordinator id -> its peer."""
        others = {key: shard for key, shard in self.follower.image.shards.items() if key[0] != topic}
        shards = {**others, **{(topic, s): ShardImage(topic, s, o, 1) for s, o in owners.items()}}
        services = {
            ("coordinator", i): ServiceImage("coordinator", i, 1, UUID(int=i), peer.endpoints)
            for i, peer in peers.items()
        }
        self.put(shards=shards, services=services)

    async def client(self, node_id: int = 0, receive_bytes: int | None = None) -> Client:
        sock = socket.socket()
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.setblocking(False)
        port = self.listener.base_port + node_id
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=1 << 16)
        client = Client(reader, writer)
        self.clients.append(client)
        return client

    def sweep(self) -> None:
        """From now on connections that have gone quiet are looked for."""
        self.deadline_check = DeadlineCheck(self.gateway.connections, self.gateway.limits.deadlines)
        self.deadline_check.start()

    def logged(self) -> list[dict[str, Any]]:
        return [call.kwargs for call in self.log.calls]

    async def close(self) -> None:
        for client in self.clients:
            client.writer.close()
        self.listener.close()
        for part in (self.deadline_check, self.internal):
            if part is not None:
                part.close()
        for connection in list(self.gateway.connections):
            connection.close()
        knocks = list(self.gateway.background)
        for task in knocks:
            task.cancel()
        await asyncio.gather(*knocks, return_exceptions=True)
        for peer in self.peers:
            await peer.stop()
        for _ in range(3):  # what a peer accepted last closes in its own turns
            await asyncio.sleep(0)

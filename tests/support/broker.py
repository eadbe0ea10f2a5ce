"""A broker without a controller: a metadata follower's twin that a test moves by hand, and clients of its listener."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from prometheus_client import CollectorRegistry

from tailrace.access.authorizer import Authorizer
from tailrace.config import Config
from tailrace.log.directory.log_dir import LogDir
from tailrace.metadata.image import MetadataImage, PartitionImage, ShardImage, TopicImage
from tailrace.net.address import Address
from tailrace.net.authentication.client import log_in
from tailrace.net.authentication.secret import Secret
from tailrace.net.background import in_background
from tailrace.net.client import Client
from tailrace.net.identity import COORDINATOR_CLIENT_ID, Identity
from tailrace.net.metadata.follower import Subscriber
from tailrace.records.record import Record, build
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.role import Environment
from tailrace.steps import Steps, whole
from tailrace.wire.messages import FetchRequest, PreambleRequest, ProduceRequest
from tailrace_broker import app
from tailrace_broker.broker import Broker
from tailrace_broker.compaction.cleaner import Cleaner
from tailrace_broker.directories.opening import open_log_dirs
from tailrace_broker.directories.replica_dirs import Accounts
from tailrace_broker.directories.storage import Storage
from tailrace_broker.replication.replicas import Replicas

SECRET = Secret(b"the broker of the test knows this")
TOPIC_ID, OFFSETS_ID = UUID(int=5), UUID(int=7)
CLIENT = Identity(client_host="10.1.1.1", listener="CLIENT", advertised_host="front", base_port=9092, node_id=0)


class FollowerTwin:
    """The metadata follower as the broker sees it; `move` is the controller's part."""

    stale = False

    def __init__(self, image: MetadataImage) -> None:
        self.image = self.applied = image
        self._subscribers: list[Subscriber] = []
        self._moved = asyncio.Event()
        self.waited_for = asyncio.Event()
        self.on_ask: Callable[[Any], Any] | None = None
        self.committed: dict[str, Any] = {}  # what a controller has beyond the image

    def subscribe(self, callback: Subscriber) -> None:
        self._subscribers.append(callback)

    async def begin(self, callback: Subscriber) -> None:
        whole(callback(MetadataImage(), self.image) or _nothing())
        self.subscribe(callback)

    async def end(self, callback: Subscriber) -> None:
        self._subscribers.remove(callback)

    async def again(self, callback: Subscriber) -> None:
        whole(callback(self.image, self.image) or _nothing())

    async def ask_controller(self, message: Any, timeout_ms: float) -> Any:
        if self.on_ask is None:
            raise TimeoutError
        return await self.on_ask(message)

    async def catch_up(self, timeout_ms: float) -> bool:
        if self.committed:
            self.move(**self.committed)
        return True

    async def wait_for(self, predicate: Callable[[MetadataImage], bool], timeout_ms: float) -> MetadataImage:
        async with asyncio.timeout(timeout_ms / 1000):
            while not predicate(self.image):
                self.waited_for.set()
                await self._moved.wait()
        return self.image

    def move(self, **changes: Any) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
        self.show(replace(self.image, **changes))

    def show(self, image: MetadataImage) -> None:
        """What follows the image hears of this one; nobody who waits is woken."""
        old, self.image = self.image, image
        for callback in self._subscribers:
            whole(callback(old, image) or _nothing())
        self.applied = image


def _nothing() -> Steps[None]:
    yield from ()


def topic(name: str, topic_id: UUID, *leaders: int) -> TopicImage:
    return TopicImage(name, topic_id, tuple(PartitionImage((n,), (n,), n, 3, 0) for n in leaders))


def image(**configs: str) -> MetadataImage:
    """Topic t: partitions 0 and 1 here, 2 on node 1; __consumer_offsets-0 here, its shard in epoch 5."""
    topics = {t.name: t for t in (topic("t", TOPIC_ID, 0, 0, 1), topic("__consumer_offsets", OFFSETS_ID, 0))}
    return MetadataImage(
        cluster_id="c",
        topics=topics,
        topic_names={t.topic_id: t.name for t in topics.values()},
        shards={("__consumer_offsets", 0): ShardImage("__consumer_offsets", 0, 0, 5)},
        configs={(2, "t"): configs} if configs else {},
    )


class Running:
    """A broker, its follower twin, and clients: `service` is a coordinator, `client` a relayed one."""

    def __init__(
        self,
        broker: Broker,
        follower: FollowerTwin,
        listener: app.BrokerListener,
        replicas: Replicas,
        cleaner: Cleaner,
        environment: Environment,
    ) -> None:
        self.broker = broker
        self.follower = follower
        self.listener = listener
        self.replicas = replicas
        self.cleaner = cleaner
        self.environment = environment
        self.address: Any = listener.server.addresses[-1]
        self.client_address: Address | None = None  # with gateway.advertise=brokers
        self.service = Client(self.address, COORDINATOR_CLIENT_ID, login=SECRET)
        self.client = Client(self.address, "client", CLIENT, SECRET)

    def again(self) -> Running:
        """The same broker with other clients."""
        return Running(self.broker, self.follower, self.listener, self.replicas, self.cleaner, self.environment)

    async def release(self) -> None:
        """What a registration would have it lead it leads, as the image says, on a slow machine as well."""
        whole(self.broker.topics.release(self.follower.image, lambda changes: None))
        await all_opened(self.broker)

    async def open_wire(self) -> Any:
        """The transport of the client's connection, for requests to which a test expects no answer."""
        loop = asyncio.get_running_loop()
        if self.address.is_unix:
            transport, _ = await loop.create_unix_connection(asyncio.Protocol, self.address.host)
        else:
            sock = socket.socket()
            sock.setblocking(False)
            await loop.sock_connect(sock, tuple(self.address))
            await log_in(sock, SECRET)
            transport, _ = await loop.create_connection(asyncio.Protocol, sock=sock)
        self.client.take_over(transport)
        await self.client.ask(PreambleRequest(**CLIENT._asdict()), timeout_ms=5000, version=0)
        return transport

    async def produce(
        self,
        partition: int,
        *batches: bytes,
        version: int = 12,
        acks: int = 1,
        name: str = "t",
        timeout_ms: int = 20_000,
    ) -> Any:
        """One request per batch, pipelined; returns the partition answers."""
        rows = []
        for batch in batches:
            data = ProduceRequest.TopicProduceData
            row = data.PartitionProduceData(index=partition, records=batch)
            request = ProduceRequest(
                transactional_id=None,
                acks=acks,
                timeout_ms=timeout_ms,
                topic_data=[data(name=name, topic_id=TOPIC_ID, partition_data=[row])],
            )
            answer = await self.client.ask(request, timeout_ms=30_000, version=version)
            rows.append(answer.responses[0].partition_responses[0])
        return rows[0] if len(rows) == 1 else rows

    def fetch_request(self, partition: int, offset: int, **fields: Any) -> FetchRequest:
        want = FetchRequest.FetchTopic.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=fields.pop("partition_max_bytes", 1 << 20)
        )
        return FetchRequest(
            max_wait_ms=fields.pop("max_wait_ms", 0),
            min_bytes=fields.pop("min_bytes", 1),
            max_bytes=fields.pop("max_bytes", 1 << 20),
            topics=[FetchRequest.FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[want])],
            rack_id=fields.pop("rack_id", ""),
            **fields,
        )

    async def fetch(self, partition: int, offset: int, *, version: int = 12, **fields: Any) -> Any:
        answer = await self.client.ask(
            self.fetch_request(partition, offset, **fields), timeout_ms=10_000, version=version
        )
        return answer.responses[0].partitions[0]


def batch(*values: bytes, timestamp: int = 1_700_000_000_000, **fields: Any) -> bytes:
    return bytes(build([Record(timestamp=timestamp, value=value) for value in values], **fields))


async def all_opened(broker: Broker) -> None:
    """A slow machine opens few of many logs with the image that gives them, the others in the turns after it."""
    for _ in range(10_000):
        if not broker.publisher.openings:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{len(broker.publisher.openings)} logs still wait to be opened")


@asynccontextmanager
async def running(
    path: Path,
    metadata: MetadataImage | None = None,
    *,
    replicating: str = "",
    space: Any = None,
    log_dirs: list[LogDir] | None = None,
    held_back: str = "",
    accounts: Accounts | None = None,
    cleaner_of: Callable[[Broker], Cleaner] | None = None,
    log: Any = None,
    authorizer: Authorizer | None = None,
    **settings: str,
) -> AsyncIterator[Running]:
    """held_back: as a broker is until it has registered; otherwise it leads what has no other replica."""
    overrides = {"node.id": "0", **{key.replace("_", "."): value for key, value in settings.items()}}
    config = Config.load("broker", overrides=overrides)
    clock, log = SystemClock(), log or structlog.get_logger()
    environment = Environment(
        clock, random.Random(1), log, path, path / "run", "boot", CollectorRegistry(), SECRET, authorizer
    )
    follower: Any = FollowerTwin(metadata or image())
    opened = open_log_dirs(config, environment, "c") if log_dirs is None else nullcontext(log_dirs)
    with opened as dirs:
        storage = Storage(dirs, config, clock.wall_ms, follower.image)
        broker = app.build_broker(config, environment, follower, storage, space=space, accounts=accounts)
        cleaner = app.open_cleaner(broker, environment, pace=-1) if cleaner_of is None else cleaner_of(broker)
        await broker.publisher.begin()
        if not held_back:
            whole(broker.topics.release_alone(follower.image, lambda changes: None))
        async with app.open_listener(broker, follower, cleaner, config, environment) as listener:
            replicas = app.open_replicas(broker, follower, environment)
            running = Running(broker, follower, listener, replicas, cleaner, environment)
            if "client" in listener.addresses:
                running.client_address = Address.parse(listener.addresses["client"].partition(",")[0])
            try:
                if replicating:
                    async with in_background(broker.publisher.recoveries.run()), in_background(replicas.run()):
                        yield running
                else:
                    yield running
            finally:
                await running.client.close()
                await running.service.close()
        await app.close_broker(broker, follower, 1)

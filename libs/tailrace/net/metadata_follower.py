"""Keeps a metadata image up to date by fetching `__cluster_metadata` from any controller (KIP-595, KIP-630).

The last image is cached on disk, so a service goes on with it, marked stale, while no controller answers, also after
its own restart. A controller with a lower epoch than one seen before is refused (a zombie or a restored backup).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeAlias

from tailrace.clock import Cancellable, Clock
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.codec import MalformedRecord
from tailrace.metadata.image import MetadataImage
from tailrace.net import metadata_cache
from tailrace.net.address import Address
from tailrace.net.background import beside
from tailrace.net.backoff import Backoff
from tailrace.net.client import Client, Disconnected
from tailrace.net.metadata_batches import TOPIC, TOPIC_ID, Snapshot, decode_snapshot, replay
from tailrace.wire.apis import ApiKey
from tailrace.wire.codec import Malformed
from tailrace.wire.messages import ApiMessage, FetchRequest, FetchSnapshotRequest

MAX_WAIT_MS = 5_000
ANSWER_TIMEOUT_MS = 10_000
MAX_BYTES = 8 << 20
CACHE_DELAY_MS = 1_000
FAILURES_WHILE_STARTING = 10  # some two seconds
RETRY_MS = (
    10,
    250,
)  # first and longest wait: to knock at a socket is cheap, and a controller comes back within a second
# Requests that hold up nothing else: a heartbeat must not wait behind a decision that waits for the database.
_LIVENESS = frozenset(
    {ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT, ApiKey.REGISTER_SERVICE, ApiKey.SERVICE_HEARTBEAT}
)
Subscriber: TypeAlias = Callable[[MetadataImage, MetadataImage], None]


class Refused(Exception):
    """This controller's answer cannot be used; another one, or the same one later, may do."""


class Surroundings(Protocol):
    """What a follower takes of the runtime's Environment."""

    @property
    def clock(self) -> Clock: ...
    @property
    def random(self) -> Random: ...
    @property
    def log(self) -> Any: ...
    @property
    def data_dir(self) -> Path: ...
    @property
    def run_dir(self) -> Path | None: ...


class MetadataFollower:
    """One service's view of the cluster. `image` is replaced, never changed; `stale` until a controller answers."""

    def __init__(
        self, addresses: Sequence[Address], client_id: str, clock: Clock, random: Random, log: Any, cache: Path | None
    ) -> None:
        assert addresses, "a follower knows at least one controller"
        self.image = MetadataImage()
        self.stale = True
        self.controller_id = -1
        self.controller_epoch = -1
        self._addresses = list(addresses)
        self._client_id = client_id
        self._clock = clock
        self._random = random
        self._log = log
        self._cache = cache
        self._at = 0
        self._clients = {True: self._client(), False: self._client()}
        self._subscribers: list[Subscriber] = []
        self._waiting: set[tuple[Callable[[MetadataImage], bool], asyncio.Future[MetadataImage]]] = set()
        self._caching: asyncio.Task[None] | None = None
        self._cache_timer: Cancellable | None = None
        self._cache_delay_ms: float = CACHE_DELAY_MS
        self._last_complaint = ""
        if cache is not None and (cached := metadata_cache.read(cache)) is not None:
            self.image, self.controller_epoch = cached

    @property
    def controller(self) -> Address | None:
        """Where the active controller is believed to be; None before any answered."""
        return None if self.controller_id < 0 else self._addresses[self._at]

    def subscribe(self, callback: Subscriber) -> None:
        """Calls back with the old and the new image after every change, in order."""
        self._subscribers.append(callback)

    async def wait_for(self, predicate: Callable[[MetadataImage], bool], timeout_ms: float | None) -> MetadataImage:
        """Returns the first image that the predicate accepts; TimeoutError if none comes (None: wait for ever)."""
        if predicate(self.image):
            return self.image
        future: asyncio.Future[MetadataImage] = asyncio.get_running_loop().create_future()
        waiter = (predicate, future)
        self._waiting.add(waiter)
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                return await future
        finally:
            self._waiting.discard(waiter)

    async def ask_controller(self, message: ApiMessage, timeout_ms: float) -> Any:
        """Asks the active controller, over lost connections and NOT_CONTROLLER answers, within the timeout.

        Raises Disconnected or TimeoutError. A lost connection leaves unknown whether the controller acted: what is
        asked again must be such that doing it twice is no worse than an error.
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        backoff = Backoff(self._clock, self._random, *RETRY_MS)
        while True:
            at, client = self._at, self._clients[message.API_KEY in _LIVENESS]
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                raise TimeoutError(f"no active controller answered within {timeout_ms:.0f} ms")
            try:
                answer = await client.ask(message, timeout_ms=left_ms)
                if not _is_not_controller(answer):
                    return answer
            except Disconnected:
                pass
            if at == self._at:
                await self._next_controller()
            wait_ms = backoff.next_ms()
            if self._clock.monotonic_ms() + wait_ms >= deadline_ms:
                raise Disconnected(f"no active controller answered within {timeout_ms:.0f} ms")
            await self._clock.sleep(wait_ms)

    async def run(self) -> None:
        """Follows the log until cancelled."""
        backoff = Backoff(self._clock, self._random, *RETRY_MS)
        client = self._client()
        fetching_from = self._at
        try:
            while True:
                try:
                    await self._fetch(client)
                    backoff.reset()
                    continue
                except (Disconnected, TimeoutError, Malformed, MalformedRecord, ApiError, Refused) as failure:
                    self._complain(failure, backoff.failures)
                await client.close()
                if fetching_from == self._at:
                    await self._next_controller()
                fetching_from = self._at
                client = self._client()
                await backoff.wait()
        finally:
            await client.close()

    async def close(self) -> None:
        """Ends connections and writes the cache a last time if it is behind."""
        for client in self._clients.values():
            await client.close()
        if self._caching is not None:
            await self._caching
        if self._cache_timer is not None:
            self._cache_timer.cancel()
            self._write_cache()
        if self._caching is not None:
            await self._caching

    def _client(self) -> Client:
        return Client(self._addresses[self._at], self._client_id)

    async def _next_controller(self) -> None:
        self._at = (self._at + 1) % len(self._addresses)
        old, self._clients = self._clients, {True: self._client(), False: self._client()}
        for client in old.values():
            await client.close()

    async def _fetch(self, client: Client) -> None:
        """One long poll. min_bytes 0 while stale: the first answer of a controller must not wait for news."""
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=0,
            fetch_offset=self.image.offset + 1,
            last_fetched_epoch=self.image.epoch,
            partition_max_bytes=MAX_BYTES,
        )
        request = FetchRequest(
            cluster_id=self.image.cluster_id or None,
            max_wait_ms=0 if self.stale else MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            topics=[FetchRequest.FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
        )
        answer = await client.ask(request, timeout_ms=ANSWER_TIMEOUT_MS)
        if answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise Refused(
                f"{client.address} belongs to another cluster than this image, whose id is {self.image.cluster_id}; "
                f"if that is meant, remove {self._cache}"
            )
        if answer.error_code:
            raise Refused(f"{client.address} answered {ErrorCode(answer.error_code).name}")
        partition = answer.responses[0].partitions[0]
        self._check_epoch(client, partition.current_leader)
        if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise Refused(
                f"{client.address} has metadata up to offset {partition.high_watermark - 1} only, another history than "
                f"this image of offset {self.image.offset}, epoch {self.image.epoch}: its database may be an old one"
            )
        if partition.error_code:
            raise Refused(f"{client.address} answered {ErrorCode(partition.error_code).name}")
        if partition.snapshot_id is not None and partition.snapshot_id.end_offset >= 0:
            image = await self._fetch_snapshot(client, partition.snapshot_id)
        else:
            image = replay(self.image, bytes(partition.records or b""))
        self._on_answer(image, up_to_date=image.offset + 1 >= partition.high_watermark)

    async def _fetch_snapshot(self, client: Client, snapshot_id: Any) -> MetadataImage:
        asked = FetchSnapshotRequest.TopicSnapshot.PartitionSnapshot
        data = bytearray()
        while True:
            wanted = asked.SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch)
            partition = asked(partition=0, current_leader_epoch=-1, snapshot_id=wanted, position=len(data))
            topic = FetchSnapshotRequest.TopicSnapshot(name=TOPIC, partitions=[partition])
            answer = await client.ask(FetchSnapshotRequest(topics=[topic]), timeout_ms=ANSWER_TIMEOUT_MS)
            got = answer.topics[0].partitions[0] if not answer.error_code else answer
            if got.error_code:
                raise Refused(f"{client.address} answered {ErrorCode(got.error_code).name} to FetchSnapshot")
            data += got.unaligned_records or b""
            if len(data) >= got.size:
                return decode_snapshot(Snapshot(snapshot_id.end_offset, snapshot_id.epoch, bytes(data)))

    def _check_epoch(self, client: Client, leader: Any) -> None:
        if leader is None:
            return
        if leader.leader_epoch < self.controller_epoch:
            raise Refused(
                f"{client.address} has controller epoch {leader.leader_epoch}, {self.controller_epoch} was seen"
            )
        self.controller_id, self.controller_epoch = leader.leader_id, leader.leader_epoch

    def _on_answer(self, image: MetadataImage, *, up_to_date: bool) -> None:
        if self.stale and up_to_date:
            self.stale = False
            self._last_complaint = ""
            self._log.info("metadata is up to date", offset=image.offset, controller_epoch=self.controller_epoch)
        if image is self.image:
            return
        old, self.image = self.image, image
        for callback in self._subscribers:
            callback(old, image)
        for predicate, future in list(self._waiting):
            if not future.done() and predicate(image):
                future.set_result(image)
        if self._cache is not None and self._cache_timer is None:
            self._cache_timer = self._clock.call_later(self._cache_delay_ms, self._write_cache)

    def _write_cache(self) -> None:
        """Encodes and writes beside the loop; changes that come meanwhile are in the next one."""
        self._cache_timer = None
        if self._cache is None:
            return
        if self._caching is not None and not self._caching.done():
            self._cache_timer = self._clock.call_later(self._cache_delay_ms, self._write_cache)
            return
        cached = metadata_cache.Cached(self.image, self.controller_epoch)
        self._caching = asyncio.get_running_loop().create_task(self._cache_image(self._cache, cached))

    async def _cache_image(self, path: Path, cached: metadata_cache.Cached) -> None:
        started_ms = self._clock.monotonic_ms()
        try:
            await asyncio.to_thread(metadata_cache.write, path, cached, self._clock.wall_ms())
            # A large image that changes all the time must not keep a core busy with its copies.
            self._cache_delay_ms = max(CACHE_DELAY_MS, 20 * (self._clock.monotonic_ms() - started_ms))
        except OSError as failure:  # a full disk; the cache stays an older one
            self._log.warning("the metadata cache was not written", path=str(path), error=str(failure))

    def _complain(self, failure: Exception, failures: int) -> None:
        """One line when no controller answers, and one for each other reason; not one for every attempt.

        While everything starts, the first failures say nothing.
        """
        self.stale = True
        away = isinstance(failure, Disconnected | TimeoutError)
        sentence = str(failure) or type(failure).__name__
        complaint = "away" if away else sentence
        starting = away and self.controller_id < 0 and failures < FAILURES_WHILE_STARTING
        if complaint != self._last_complaint and not starting:
            self._last_complaint = complaint
            self._log.warning("metadata is stale", why=sentence, offset=self.image.offset)


def _is_not_controller(answer: Any) -> bool:
    """Says whether the answer as a whole, or its first row, is NOT_CONTROLLER."""
    if "error_code" in answer.fields:
        return bool(answer.error_code == ErrorCode.NOT_CONTROLLER)
    for name in ("topics", "responses", "results", "entries"):
        if name in answer.fields and (rows := getattr(answer, name)):
            return bool(rows[0].error_code == ErrorCode.NOT_CONTROLLER)
    return False


def controller_addresses(config: Config, run_dir: Path | None) -> list[Address]:
    """Returns controller.quorum.bootstrap.servers; where unset, the Unix socket of controller 0 in run_dir."""
    given = [Address.parse(text) for text in config.controller_quorum_bootstrap_servers]
    if not given and run_dir is not None:
        given = [Address(str(run_dir / "controller-0.sock"), -1)]
    return given


@asynccontextmanager
async def open_metadata_follower(
    config: Config, environment: Surroundings, client_id: str
) -> AsyncIterator[MetadataFollower]:
    """Follows the metadata log while open; client_id, like `broker-0`, also names the cache's file."""
    follower = MetadataFollower(
        controller_addresses(config, environment.run_dir),
        client_id,
        environment.clock,
        environment.random,
        environment.log,
        environment.data_dir / "metadata-cache" / f"{client_id}.image",
    )
    try:
        # Following ends only by a bug (a subscriber's, say): whoever relies on the image must not go on without it.
        async with beside(follower.run()):
            yield follower
    finally:
        await follower.close()

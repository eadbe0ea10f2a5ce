"""Keeps a metadata image up to date by fetching `__cluster_metadata` from the controllers (KIP-595, KIP-630).

It polls every controller, since each serves the log; requests go to the one that is active. The last image is cached on
disk, so a service goes on with it, marked stale, while no controller is active, also after its own restart. A
controller with a lower epoch than one seen before is refused (a zombie or a restored backup), in polls and in answers.

What a service makes of an image may be long work: thousands of partitions to lead. A subscriber does it in steps, and
others have their turn in between. The next image waits until all subscribers have taken up the one before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeAlias

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Cancellable, Clock
from tailrace.config import Config, ConfigError
from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.background import in_background
from tailrace.net.backoff import Backoff
from tailrace.net.client import Client, Disconnected, SaslLogin
from tailrace.net.members.environment import ServiceEnvironment
from tailrace.net.members.internal import NEEDS_SECRET
from tailrace.net.metadata import cache as metadata_cache
from tailrace.net.metadata.batches import encode_snapshot_in_steps
from tailrace.net.metadata.link import Behind, MetadataLink, PollAnswer
from tailrace.net.turns import in_turns
from tailrace.steps import Steps
from tailrace.wire.apis import ApiKey
from tailrace.wire.messages import ApiMessage, MetadataOffsetRequest

CACHE_DELAY_MS = 1_000
FAILURES_WHILE_STARTING = 10  # some two seconds
# First and longest wait: to knock at a socket is cheap, and a controller comes back within a second.
RETRY_MS = (10, 250)
# Requests that hold up nothing else: a heartbeat must not wait behind a decision that waits for the database.
_LIVENESS = frozenset(
    {ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT, ApiKey.REGISTER_SERVICE, ApiKey.SERVICE_HEARTBEAT}
)
Subscriber: TypeAlias = Callable[[MetadataImage, MetadataImage], Steps[None] | None]


class FollowerEnvironment(ServiceEnvironment, Protocol):
    """What a follower takes of the runtime's Environment."""

    @property
    def data_dir(self) -> Path: ...
    @property
    def run_dir(self) -> Path | None: ...


class MetadataFollower:
    """One service's view of the cluster. `image` is replaced, never changed; `stale` while no controller is active.

    `applied` is the last image that all subscribers have taken up: the one that the service may say that it has.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        client_id: str,
        clock: Clock,
        random: Random,
        log: FilteringBoundLogger,
        cache: Path | None,
        secret: SaslLogin | None = None,
    ) -> None:
        assert addresses, "a follower knows at least one controller"
        self.image = MetadataImage()
        self.stale = True
        self.controller_id = -1
        self.controller_epoch = -1
        self._addresses = list(addresses)
        self.secret = secret
        self._client_id = client_id
        self._clock = clock
        self._random = random
        self._log = log
        self._cache = cache
        self._in_order = asyncio.Lock()  # one image after the other
        self._at = 0
        self._active: Address | None = None
        self._moved = asyncio.Event()
        self._clients: dict[tuple[Address, bool], Client] = {}
        self._subscribers: list[Subscriber] = []
        self._on_move: list[Callable[[Address | None], None]] = []
        self._waiting: set[tuple[Callable[[MetadataImage], bool], asyncio.Future[MetadataImage]]] = set()
        self._caching: asyncio.Task[None] | None = None
        self._cache_timer: Cancellable | None = None
        self._cache_delay_ms: float = CACHE_DELAY_MS
        self._last_complaint = ""
        if cache is not None and (cached := metadata_cache.read(cache)) is not None:
            self.image, self.controller_epoch = cached
        self.applied = self.image
        self._links = [
            MetadataLink(address, client_id, self, Backoff(clock, random, *RETRY_MS)) for address in addresses
        ]

    @property
    def controller(self) -> Address | None:
        """Where the active controller was last; None before any said that it is."""
        return self._active

    @property
    def cache_name(self) -> str:
        """Where the image is kept on disk."""
        return str(self._cache)

    def subscribe(self, callback: Subscriber) -> None:
        """Calls back with the old and the new image after every change, in order; steps that it returns are taken."""
        self._subscribers.append(callback)

    async def begin(self, callback: Subscriber) -> None:
        """Has the present image taken up, of which everything is new, and from then on every change."""
        async with self._in_order:
            await _take(callback(MetadataImage(), self.image))
            self._subscribers.append(callback)

    async def again(self, callback: Subscriber) -> None:
        """Has a subscriber look at the present image once more, which is the old and the new one."""
        async with self._in_order:
            await _take(callback(self.image, self.image))

    async def end(self, callback: Subscriber) -> None:
        """The subscriber hears of no further image; returns when it has taken up the one that it has begun with."""
        async with self._in_order:
            self._subscribers.remove(callback)

    def on_move(self, callback: Callable[[Address | None], None]) -> None:
        """Calls back with where the active controller was, whenever another one is active."""
        self._on_move.append(callback)

    async def wait_for(self, predicate: Callable[[MetadataImage], bool], timeout_ms: float | None) -> MetadataImage:
        """Returns the first image that was taken up and that the predicate accepts.

        TimeoutError if none comes (None: wait forever).
        """
        if predicate(self.applied):
            return self.applied
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
        address = self._active or self._addresses[self._at]
        while True:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                raise TimeoutError(f"no active controller answered within {timeout_ms:.0f} ms")
            active = self._active
            try:
                answer = await self._client(address, message).ask(message, timeout_ms=left_ms)
                if self._is_current(answer, address):
                    return answer
            except Disconnected:
                pass
            wait_ms = backoff.next_ms()
            if self._clock.monotonic_ms() + wait_ms >= deadline_ms:
                raise Disconnected(f"no active controller answered within {timeout_ms:.0f} ms")
            if self._active in (active, None):
                await self._pause(wait_ms)
            address = self._next(address)

    async def catch_up(self, timeout_ms: float) -> bool:
        """Waits until all that is committed by now was taken up, so that who asks next reads what was written.

        False where that cannot be known in time: no controller is active, or the log does not reach us.
        """
        until_ms = self._clock.monotonic_ms() + timeout_ms
        try:
            answer = await self.ask_controller(
                MetadataOffsetRequest(current_metadata_offset=self.applied.offset), timeout_ms
            )
            if answer.error_code:
                return False
            committed: int = answer.committed_offset
            await self.wait_for(lambda image: image.offset >= committed, until_ms - self._clock.monotonic_ms())
        except (Disconnected, TimeoutError):
            return False
        return True

    def _next(self, address: Address) -> Address:
        """Whom to ask after this one: the active one, or where that did not answer, each in turn."""
        if self._active is not None and self._active != address:
            return self._active
        self._at = (self._at + 1) % len(self._addresses)
        return self._addresses[self._at]

    async def _pause(self, wait_ms: float) -> None:
        """Ends early when another controller becomes active."""
        timer = self._clock.call_later(wait_ms, self._moved.set)
        self._moved.clear()
        try:
            await self._moved.wait()
        finally:
            timer.cancel()

    def _client(self, address: Address, message: ApiMessage) -> Client:
        key = (address, message.API_KEY in _LIVENESS)
        if key not in self._clients:
            self._clients[key] = Client(address, self._client_id, login=self.secret)
        return self._clients[key]

    def _is_current(self, answer: Any, address: Address) -> bool:
        """Whether an active controller gave this answer, and no successor of it has answered before."""
        if is_not_controller(answer):
            return False
        epoch = answer.controller_epoch if "controller_epoch" in answer.fields else -1
        if 0 <= epoch < self.controller_epoch:
            self._log.warning(
                "STALE_CONTROLLER_EPOCH", controller=str(address), epoch=epoch, seen=self.controller_epoch
            )
            return False
        self.controller_epoch = max(epoch, self.controller_epoch)
        return True

    async def run(self) -> None:
        """Follows the log until cancelled."""
        tasks = [asyncio.get_running_loop().create_task(link.run()) for link in self._links]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # links do not end: this raises a subscriber's bug
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

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

    # -- what the links hear --------------------------------------------------------------------------------------

    async def on_answer(self, link: MetadataLink, answer: PollAnswer) -> None:
        """A controller answered a poll; returns when its image was taken up."""
        link.fresh = answer.leader_id >= 0
        link.said = ""
        if link.fresh or answer.leader_epoch > self.controller_epoch:
            self.controller_id, self.controller_epoch = answer.leader_id, answer.leader_epoch
        if answer.is_active and self._active != link.address:
            self._move(link.address)
        if self.stale and link.fresh and answer.up_to_date:
            self.stale = False
            self._last_complaint = ""
            self._log.info("metadata is up to date", offset=answer.image.offset, controller_epoch=answer.leader_epoch)
        elif not link.fresh and not self.stale and not any(other.fresh for other in self._links):
            self._turn_stale("no controller is active")
        if answer.image is not self.image:
            await self._replace(answer.image)

    def on_failure(self, link: MetadataLink, failure: Exception) -> None:
        """A poll failed. One line when no controller is left, and one for each other reason; not one for every attempt.

        While everything starts, the first failures say nothing.
        """
        link.fresh = False
        away = isinstance(failure, Disconnected | TimeoutError | Behind)
        sentence = str(failure) or type(failure).__name__
        complaint = "away" if away else sentence
        stale = not any(other.fresh for other in self._links)
        if away and self._active is None and link.backoff.failures < FAILURES_WHILE_STARTING:
            self.stale = stale
        elif stale:
            self._turn_stale(sentence, complaint)
        elif complaint != link.said and not isinstance(failure, Behind):
            link.said = complaint
            self._log.warning("a controller cannot be followed", why=sentence)

    def _turn_stale(self, sentence: str, complaint: str = "away") -> None:
        self.stale = True
        if complaint != self._last_complaint:
            self._last_complaint = complaint
            self._log.warning("metadata is stale", why=sentence, offset=self.image.offset)

    def _move(self, address: Address) -> None:
        """Another controller is active: what others were asked will not be answered, or not be true."""
        before, self._active = self._active, address
        self._moved.set()
        for callback in self._on_move:
            callback(before)
        old = {key: client for key, client in self._clients.items() if key[0] != address}
        for key, client in old.items():
            del self._clients[key]
            client.abort()

    async def _replace(self, image: MetadataImage) -> None:
        async with self._in_order:
            if image.offset > self.image.offset:  # else another link was faster
                old, self.image = self.image, image
                for callback in tuple(self._subscribers):
                    await _take(callback(old, image))
                self.applied = image
                self._notify(image)

    def _notify(self, image: MetadataImage) -> None:
        """Those who wait for it, and the cache."""
        for predicate, future in list(self._waiting):
            if not future.done() and predicate(image):
                future.set_result(image)
        if self._cache is not None and self._cache_timer is None:
            self._cache_timer = self._clock.call_later(self._cache_delay_ms, self._write_cache)

    # -- the cache ------------------------------------------------------------------------------------------------

    def _write_cache(self) -> None:
        """Encodes in turns and writes in a thread; changes that come meanwhile are in the next one."""
        self._cache_timer = None
        if self._cache is None:
            return
        if self._caching is not None and not self._caching.done():
            self._cache_timer = self._clock.call_later(self._cache_delay_ms, self._write_cache)
            return
        self._caching = asyncio.get_running_loop().create_task(self._cache_image(self._cache))

    async def _cache_image(self, path: Path) -> None:
        """A thread that encodes would have the interpreter whenever the loop lets go of it, as at each system call."""
        started_ms, controller_epoch = self._clock.monotonic_ms(), self.controller_epoch
        try:
            snapshot = await in_turns(encode_snapshot_in_steps(self.image, self._clock.wall_ms()))
            await asyncio.to_thread(metadata_cache.write, path, snapshot, controller_epoch)
            # A large image that changes all the time must not keep a core busy with its copies.
            self._cache_delay_ms = max(CACHE_DELAY_MS, 20 * (self._clock.monotonic_ms() - started_ms))
        except OSError as failure:  # a full disk; the cache stays an older one
            self._log.warning("the metadata cache was not written", path=str(path), error=str(failure))


async def _take(steps: Steps[None] | None) -> None:
    if steps is not None:
        await in_turns(steps)


def is_not_controller(answer: Any) -> bool:
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
    config: Config, environment: FollowerEnvironment, client_id: str
) -> AsyncIterator[MetadataFollower]:
    """Follows the metadata log while open; client_id, like `broker-0`, also names the cache's file. ConfigError."""
    addresses = controller_addresses(config, environment.run_dir)
    for address in addresses:
        if environment.secret is None and not address.is_unix:
            raise ConfigError(f"controller.quorum.bootstrap.servers: {address} {NEEDS_SECRET}")
    follower = MetadataFollower(
        addresses,
        client_id,
        environment.clock,
        environment.random,
        environment.log,
        environment.data_dir / "metadata-cache" / f"{client_id}.image",
        environment.secret,
    )
    try:
        # Following ends only by a bug (a subscriber's, say): whoever relies on the image must not go on without it.
        async with in_background(follower.run()):
            yield follower
    finally:
        await follower.close()

"""Registration and heartbeats (KIP-631): how the controller knows that this broker lives, and which life it is.

Every start registers a fresh incarnation and gets a broker epoch. Heartbeats carry the metadata offset; the controller
unfences the broker when it has caught up with its own registration. An epoch the controller no longer knows means
somebody was faster: register again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.features import SUPPORTED
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import Endpoint
from tailrace.net.backoff import Backoff
from tailrace.net.client import Disconnected
from tailrace.net.metadata.follower import MetadataFollower
from tailrace.wire.messages import BrokerHeartbeatRequest, BrokerRegistrationRequest

_ASK_TIMEOUT_MS = 5000
_CATCH_UP_TIMEOUT_MS = 30_000
# A stop takes two seconds at most, whoever is away.
_SHUT_DOWN_MS = 1_500
_LEAVE_TIMEOUT_MS = 700


async def _nothing(*_: object) -> None: ...


class BrokerRegistration:
    """What this life of the broker registers with."""

    def __init__(
        self, node_id: int, incarnation_id: UUID, endpoints: list[Endpoint], rack: str | None, log_dirs: list[UUID]
    ) -> None:
        self.node_id = node_id
        self.incarnation_id = incarnation_id
        self.endpoints = endpoints
        self.rack = rack
        self.log_dirs = log_dirs

    def request(self, cluster_id: str, previous_epoch: int) -> BrokerRegistrationRequest:
        """The request; previous_epoch is that of a clean shutdown, -1 without one (KIP-966)."""
        listener, feature = BrokerRegistrationRequest.Listener, BrokerRegistrationRequest.Feature
        return BrokerRegistrationRequest(
            broker_id=self.node_id,
            cluster_id=cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[
                listener(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in self.endpoints
            ],
            features=[
                feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED.items()
            ],
            rack=self.rack,
            log_dirs=self.log_dirs,
            previous_broker_epoch=previous_epoch,
        )


class Lifecycle:
    """Runs for as long as the broker does; `unfenced` is set once the image shows this life as live."""

    def __init__(
        self,
        follower: MetadataFollower,
        clock: Clock,
        backoff: Backoff,
        registration: BrokerRegistration,
        log: FilteringBoundLogger,
        *,
        interval_ms: float = 2000,
        on_epoch: Callable[[int], Awaitable[None]] = _nothing,
        on_unreachable: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        """on_epoch: the broker was registered with it. on_unreachable: no controller answered a registration."""
        self._follower = follower
        self._clock = clock
        self._backoff = backoff
        self._registration = registration
        self._log = log
        self._interval_ms = interval_ms
        self._on_epoch = on_epoch
        self._on_unreachable = on_unreachable
        self.broker_epoch = -1
        self.unfenced = asyncio.Event()
        self.reported_dirs: frozenset[UUID] = frozenset()  # which the controller knows to be offline
        self._offline_dirs: list[UUID] = []
        self._news = asyncio.Event()
        follower.subscribe(self._on_image)

    async def run(self, previous_epoch: int) -> None:
        """Registers and heartbeats until cancelled."""
        while True:
            if await self._register(previous_epoch):
                self._backoff.reset()
                previous_epoch = self.broker_epoch
                await self._beat()
            await self._backoff.wait()

    def report_offline(self, directory_id: UUID) -> None:
        """KIP-858: a log directory failed; says so with every heartbeat from now on, the first of them at once."""
        self._offline_dirs.append(directory_id)
        self._news.set()

    async def shut_down(self) -> None:
        """Controlled shutdown: asks to go until the controller has moved what this broker leads, or says nothing."""
        if self.broker_epoch < 0:
            return
        try:
            async with asyncio.timeout(_SHUT_DOWN_MS / 1000):
                while not (await self._heartbeat(_LEAVE_TIMEOUT_MS, want_shut_down=True)).should_shut_down:
                    await self._clock.sleep(100)
        except (Disconnected, TimeoutError, ApiError) as gone:
            self._log.warning("stopping without the controller's leave", why=str(gone) or "timed out")

    async def _register(self, previous_epoch: int) -> bool:
        request = self._registration.request(self._follower.image.cluster_id, previous_epoch)
        try:
            answer = await self._follower.ask_controller(request, timeout_ms=_ASK_TIMEOUT_MS)
        except (Disconnected, TimeoutError, ApiError) as failed:
            self._log.warning("registration failed", why=str(failed) or "timed out")
            await self._on_unreachable()
            return False
        if answer.error_code != ErrorCode.NONE:
            self._log.warning("registration refused", error=ErrorCode(answer.error_code).name)
            return False
        self.broker_epoch = answer.broker_epoch
        await self._on_epoch(self.broker_epoch)
        return True

    async def _beat(self) -> None:
        """Heartbeats until the controller no longer knows this epoch."""
        try:
            await self._follower.wait_for(self._registered, timeout_ms=_CATCH_UP_TIMEOUT_MS)
        except TimeoutError:
            return
        while True:
            try:
                answer = await self._heartbeat()
            except (Disconnected, TimeoutError, ApiError) as failed:
                self._log.warning("heartbeat failed", why=str(failed) or "timed out")
                await self._backoff.wait()
                continue
            if answer.error_code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
                self._log.warning("registering again", error=ErrorCode(answer.error_code).name)
                return
            self._backoff.reset()
            # A fenced broker asks again soon: its next heartbeat is what unfences it.
            await self._pause(100 if answer.is_fenced else self._interval_ms)

    async def _pause(self, pause_ms: float) -> None:
        """Until the next heartbeat is due, or a log directory fails."""
        timer = self._clock.call_later(pause_ms, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()
            self._news.clear()

    async def _heartbeat(self, timeout_ms: float = _ASK_TIMEOUT_MS, *, want_shut_down: bool = False) -> Any:
        request = BrokerHeartbeatRequest(
            broker_id=self._registration.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._follower.applied.offset,
            want_fence=False,
            want_shut_down=want_shut_down,
            offline_log_dirs=list(self._offline_dirs),
        )
        answer = await self._follower.ask_controller(request, timeout_ms)
        if not answer.error_code:
            self.reported_dirs = frozenset(request.offline_log_dirs)
        return answer

    def _registered(self, image: MetadataImage) -> bool:
        broker = image.brokers.get(self._registration.node_id)
        return broker is not None and broker.broker_epoch == self.broker_epoch

    def _on_image(self, old: MetadataImage, new: MetadataImage) -> None:
        broker = new.brokers.get(self._registration.node_id)
        if broker is not None and broker.broker_epoch == self.broker_epoch and not broker.fenced:
            self.unfenced.set()
        else:
            self.unfenced.clear()

"""How a gateway, coordinator or quota service becomes and stays a member of the cluster: register, then heartbeat.

A heartbeat that says the epoch is unknown means somebody was faster (or the metadata is older than we are): register
again with the same incarnation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol
from uuid import UUID

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import Endpoint
from tailrace.net.backoff import Backoff
from tailrace.net.client import Disconnected
from tailrace.wire.messages import ApiMessage, RegisterServiceRequest, ServiceHeartbeatRequest

_ASK_TIMEOUT_MS = 5000
_REGISTER_AGAIN = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)


class Controllers(Protocol):
    """What registration needs of the metadata follower."""

    @property
    def image(self) -> MetadataImage: ...

    async def ask_controller(self, message: ApiMessage, timeout_ms: float) -> Any: ...


class ServiceRegistration:
    """One life of one service; service_epoch is -1 until a controller has taken it in, then on_registered is called."""

    def __init__(
        self,
        controllers: Controllers,
        clock: Clock,
        backoff: Backoff,
        log: FilteringBoundLogger,
        *,
        role: str,
        service_id: int,
        incarnation_id: UUID,
        endpoints: Sequence[Endpoint],
        interval_ms: float = 2000,
        on_registered: Callable[[], None] = lambda: None,
    ) -> None:
        self._controllers = controllers
        self._clock = clock
        self._backoff = backoff
        self._log = log
        self._role = role
        self._service_id = service_id
        self.incarnation_id = incarnation_id
        self._endpoints = endpoints
        self._interval_ms = interval_ms
        self.service_epoch = -1
        self._on_registered = on_registered

    async def run(self) -> None:
        """Registers and heartbeats until cancelled."""
        while True:
            if await self._register():
                await self._beat()
            await self._backoff.wait()

    async def leave(self, timeout_ms: float) -> None:
        """Says goodbye, so that others need not wait for the session to end."""
        if self.service_epoch < 0:
            return
        try:
            await self._controllers.ask_controller(self._heartbeat(want_shut_down=True), timeout_ms)
        except (Disconnected, TimeoutError, ApiError) as failed:
            self._log.warning("left without the controller's notice", why=str(failed) or "timed out")

    async def _register(self) -> bool:
        endpoint = RegisterServiceRequest.ServiceEndpoint
        request = RegisterServiceRequest(
            role=self._role,
            service_id=self._service_id,
            incarnation_id=self.incarnation_id,
            endpoints=[endpoint(name=at.name, host=at.host, port=at.port) for at in self._endpoints],
        )
        try:
            answer = await self._controllers.ask_controller(request, _ASK_TIMEOUT_MS)
        except (Disconnected, TimeoutError, ApiError) as failed:
            self._log.warning("registration failed", why=str(failed) or "timed out")
            return False
        if answer.error_code != ErrorCode.NONE:
            self._log.warning("registration refused", why=answer.error_message or ErrorCode(answer.error_code).name)
            return False
        self.service_epoch = answer.service_epoch
        self._backoff.reset()
        self._on_registered()
        return True

    async def _beat(self) -> None:
        while True:
            try:
                answer = await self._controllers.ask_controller(self._heartbeat(), _ASK_TIMEOUT_MS)
                code = ErrorCode(answer.error_code)
            except (Disconnected, TimeoutError) as failed:
                self._log.warning("heartbeat failed", why=str(failed) or "timed out")
                await self._backoff.wait()
                continue
            except ApiError as refused:
                code = refused.code
            if code in _REGISTER_AGAIN:
                self._log.warning("registering again", error=code.name)
                return
            self._backoff.reset()
            await self._clock.sleep(self._interval_ms)

    def _heartbeat(self, *, want_shut_down: bool = False) -> ServiceHeartbeatRequest:
        return ServiceHeartbeatRequest(
            role=self._role,
            service_id=self._service_id,
            service_epoch=self.service_epoch,
            metadata_offset=self._controllers.image.offset,
            want_shut_down=want_shut_down,
        )

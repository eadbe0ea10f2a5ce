"""Watches the sessions: expires silent brokers and services, and probes the listener of one whose connection broke.

A heartbeat connection that breaks is only a suspicion (connections break for many reasons). A refused reconnect to the
service's own listener proves that its process is gone, and it is fenced at once; otherwise the session timeout decides.
"""

import asyncio
from collections.abc import Awaitable, Callable

from tailrace.clock import Cancellable
from tailrace.errors import ApiError
from tailrace.net.address import Address
from tailrace.net.background import spawn
from tailrace.net.members.endpoints import address_of
from tailrace_controller.controller import Controller
from tailrace_controller.decide import brokers, services
from tailrace_controller.sessions.liveness import SessionKey, Sessions

BROKER = "broker"
PROBE_TIMEOUT_MS = 1000
# After a controller starts, what lives comes back within this time; what has not is probed.
SETTLE_MS = 1000
# A process that dies closes its connections one after the other: its listener may still answer for a moment.
PROBE_AGAIN_MS = (10, 20, 50, 100, 200, 500)
REFUSED, SILENT = "its connection broke and its listener refuses", "silent for the session timeout"
STALL_MS = 500  # a timer this late says that nobody was heard because nobody listened


class SessionWatch:
    """Ties the sessions to the controller's clock, its connections and its decisions."""

    def __init__(
        self,
        controller: Controller,
        timeout_ms: float,
        boot_id: str,
        refuses: Callable[[Address], Awaitable[bool]] | None = None,
    ) -> None:
        """refuses says whether nobody listens at an address; without it, by a probe."""
        self.sessions = Sessions(timeout_ms)
        self._controller = controller
        self._boot_id = boot_id
        self._refuses = refuses or probe
        self._timers: list[Cancellable] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._check: Cancellable | None = None
        self._closed = False
        self._check_at_ms = 0.0
        self._expired: set[SessionKey] = set()
        self.connection_breaks = 0
        self.fenced = {REFUSED: 0, SILENT: 0}
        self.false_fences = 0

    def on_activated(self) -> None:
        """Gives everything in the image a whole session to be heard again (grace after a controller's start)."""
        self.sessions.keep(self._expected(), self._now_ms())
        self._timers = [self._controller.clock.call_later(SETTLE_MS, self._probe_silent)]
        self._plan()

    def on_resigned(self) -> None:
        """A standby watches nobody; whoever is active does, and so do we again if it is us again."""
        self.sessions.keep((), self._now_ms())
        for timer in self._timers:
            timer.cancel()

    def on_heartbeat(self, role: str, service_id: int, epoch: int, connection: object) -> None:
        """A registration or heartbeat of this epoch was accepted."""
        key = (role, service_id, epoch)
        self.sessions.touch(key, connection, self._now_ms())
        if key in self._expired:
            self._expired.discard(key)
            self.false_fences += 1
        self._controller.on_heartbeat()
        self._plan()

    def left(self, role: str, service_id: int, epoch: int) -> None:
        """A service said goodbye."""
        self.sessions.end((role, service_id, epoch))

    def on_connection_lost(self, connection: object) -> None:
        """Called for every connection that closes."""
        if self._closed:  # we hang up, not they
            return
        for key in self.sessions.on_connection_lost(connection):
            self.connection_breaks += 1
            spawn(self._probe(key), self._tasks)

    def close(self) -> None:
        """Stops all timers and checks."""
        self._closed = True
        for timer in self._timers:
            timer.cancel()
        if self._check is not None:
            self._check.cancel()
        for task in self._tasks:
            task.cancel()

    def _expected(self) -> list[SessionKey]:
        image = self._controller.image
        live = [(BROKER, broker.broker_id, broker.broker_epoch) for broker in image.live_brokers()]
        return live + [(role, number, service.service_epoch) for (role, number), service in image.services.items()]

    def _probe_silent(self) -> None:
        for key in self.sessions.unconnected():
            spawn(self._probe(key), self._tasks)

    def _plan(self) -> None:
        """Keeps one timer, for the earliest deadline; touching a session later only makes it fire early, once."""
        deadline_ms = self.sessions.next_deadline_ms()
        if deadline_ms is None or (self._check is not None and self._check_at_ms <= deadline_ms):
            return
        if self._check is not None:
            self._check.cancel()
        self._check_at_ms = deadline_ms
        self._check = self._controller.clock.call_later(deadline_ms - self._now_ms(), self._on_deadline)

    def _on_deadline(self) -> None:
        self._check = None
        if self._now_ms() - self._check_at_ms > STALL_MS:
            # This process was stopped (SIGSTOP, a suspended machine): the heartbeats wait in its sockets.
            self.sessions.prolong(self._now_ms())
        elif not self._controller.active:
            # It hears nobody while the database keeps it waiting, and could not fence anybody anyway.
            self.sessions.prolong(self._now_ms())
        elif self.sessions.all_silent(self._now_ms()) and self._controller.on_silence("nobody was heard for a session"):
            self.sessions.prolong(self._now_ms())
        for key in self.sessions.overdue(self._now_ms()):
            self.sessions.end(key)
            spawn(self._expire(key, SILENT), self._tasks)
        self._plan()

    async def _probe(self, key: SessionKey) -> None:
        """Probes until somebody heartbeats again, the listener refuses, or it has answered for a second."""
        address = self._address(key)
        for delay_ms in (*PROBE_AGAIN_MS, None):
            if address is None or key not in self.sessions.unconnected():
                return
            if await self._refuses(address):
                break
            if delay_ms is None:
                return  # it lives, or its host does not say: the session timeout decides
            await self._controller.clock.sleep(delay_ms)
        if key in self.sessions.unconnected():
            await self._expire(key, REFUSED)

    async def _expire(self, key: SessionKey, why: str) -> None:
        role, service_id, epoch = key
        broker = self._controller.image.brokers.get(service_id) if role == BROKER else None
        expected = broker is not None and broker.in_controlled_shutdown
        self.sessions.end(key)
        config = self._controller.config
        try:
            if role == BROKER:
                await self._controller.run_in_thread(
                    lambda image: brokers.hand_over(image, service_id, epoch, config), behind=False
                )
                gone = await self._controller.run_in_thread(
                    lambda image: brokers.expire(image, service_id, epoch, config)
                )
            else:
                gone = await self._controller.run(lambda image: services.expire(image, role, service_id, epoch))
        except ApiError:
            return  # not active any more: the next activation begins all sessions again
        if gone and role == BROKER:
            self._expired = {other for other in self._expired if other[1] != service_id} | {key}
        if gone and not expected:
            self.fenced[why] += role == BROKER
            self._controller.log.warning("fenced" if role == BROKER else "expired", who=f"{role} {service_id}", why=why)

    def _address(self, key: SessionKey) -> Address | None:
        role, service_id, epoch = key
        image = self._controller.image
        if role == BROKER:
            broker = image.brokers.get(service_id)
            endpoints = broker.endpoints if broker is not None and broker.broker_epoch == epoch else ()
        else:
            service = image.services.get((role, service_id))
            endpoints = service.endpoints if service is not None and service.service_epoch == epoch else ()
        return address_of(endpoints, self._boot_id)

    def _now_ms(self) -> float:
        return self._controller.clock.monotonic_ms()


async def probe(address: Address) -> bool:
    """Says whether nobody listens at the address; a timeout or an unreachable host proves nothing."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_MS / 1000):
            if address.is_unix:
                _, writer = await asyncio.open_unix_connection(address.host)
            else:
                _, writer = await asyncio.open_connection(address.host, address.port)
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return False

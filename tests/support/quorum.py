"""Several controllers on one PostgreSQL server, each behind a proxy of its own, in the test's process."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from support.controllers import WAIT_MS, Node, creation
from support.postgres import Postgres
from support.tcp_proxy import TcpProxy
from tailrace.net.metadata.follower import MetadataFollower
from tailrace_controller.controller import Controller


class Member:
    """One controller: its node, its way to the database, and what it said."""

    def __init__(self, directory: Path, number: int, proxy: TcpProxy, changed: Callable[[], None], **settings: str):
        url = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"
        sockets = ",".join(f"unix:{directory / 'run' / f'controller-{n}.sock'}" for n in range(3))
        keys = {"metadata.url": url, "controller.quorum.bootstrap.servers": sockets, **settings}
        self.node = Node(directory, number, keys)
        self.said: list[str] = []
        log = structlog.wrap_logger(structlog.get_logger(), processors=[self._say, structlog.dev.ConsoleRenderer()])
        data_dir = directory / f"controller-{number}"
        self.node.environment = replace(self.node.environment, log=log, data_dir=data_dir)
        self.proxy = proxy
        self.controller: Any = None
        self._changed = changed
        self._stack = AsyncExitStack()

    def _say(self, _logger: Any, _name: str, event: Any) -> Any:
        self.said.append(str(event.get("event")))
        self._changed()
        return event

    async def start(self) -> Controller:
        role = await self._stack.enter_async_context(self.node.controller())
        self.controller = role.controller
        return role.controller

    async def stop(self) -> None:
        await self._stack.aclose()
        self.controller = None


@contextmanager
def listening(path: Path) -> Iterator[None]:
    """Connections are taken (by the kernel), and nobody ever answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        listener.listen()
        yield


class Quorum:
    """Three controllers; which of them is active, and when that changes."""

    def __init__(self, directory: Path, postgres: Postgres, **settings: str) -> None:
        self.postgres = postgres
        self._changed = asyncio.Event()
        # The tests' broker heartbeats once: how long a test takes must not fence it.
        keys = {"broker.session.timeout.ms": "60000", **settings}
        self.members = [
            Member(directory, number, TcpProxy(postgres.port), self._changed.set, **keys) for number in range(3)
        ]

    @asynccontextmanager
    async def running(self, count: int = 3) -> AsyncIterator[list[Controller]]:
        """Controllers that have replayed the log; the first is active.

        Somebody listens where the tests' broker says it does: a successor probes there, and fences who refuses.
        """
        with listening(self.members[0].node.directory / "broker.sock"):
            try:
                yield [await member.start() for member in self.members[:count]]
            finally:
                for member in self.members:
                    member.proxy.mend()
                    await member.stop()
                    member.proxy.close()

    def follower(self, name: str = "gateway-0") -> Any:
        """Follows all three."""
        return self.members[0].node.follower(name)

    async def active(self, *besides: Controller) -> Controller:
        """The active controller, another one than those named."""
        found: list[Controller] = []

        def look() -> bool:
            known = [member.controller for member in self.members if member.controller is not None]
            found[:] = [controller for controller in known if controller.active and controller not in besides]
            return bool(found)

        await self.until(look)
        return found[0]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Looks whenever a controller logs something."""
        async with asyncio.timeout(WAIT_MS / 1000):
            while not holds():
                self._changed.clear()
                try:
                    async with asyncio.timeout(0.1):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    def refuses(self) -> bool:
        """Whether a controller has said that its database is an older one, and left word in it."""
        return any(said.startswith("the metadata database ends at") for member in self.members for said in member.said)

    def of(self, controller: Controller) -> Member:
        """The member that a controller is."""
        return next(member for member in self.members if member.controller is controller)

    async def agree(self, follower: MetadataFollower, *controllers: Controller) -> None:
        """Waits until these controllers have the follower's image."""
        await self.until(lambda: all(controller.committed == follower.image for controller in controllers))


async def create(follower: MetadataFollower, name: str) -> int:
    """Creates a topic at the active controller, whoever that is; its error code, 36 if it was there after all."""
    answer = await follower.ask_controller(creation(name), timeout_ms=WAIT_MS)
    code: int = answer.topics[0].error_code
    return code

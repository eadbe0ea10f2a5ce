"""Opens a role and keeps it open until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tailrace.net.address import Address
from tailrace.net.authentication.secret_file import SecretWatch, read_secret, secret_path
from tailrace.net.background import in_background
from tailrace.net.garbage_collection import SURVIVORS
from tailrace.net.limits.seldom import SeldomWarning
from tailrace.printable import printable
from tailrace.runtime import http, logs
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.insecure_listeners import check_listeners
from tailrace.runtime.role import Environment, Opened, Role
from tailrace.runtime.run_files import boot_id
from tailrace.runtime.start import cancelled_by
from tailrace.wire import messages

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from tailrace.config import Config


# How long a thread that computes may keep the interpreter from the event loop; Python's own interval is 5 ms.
_SWITCH_SECONDS = 0.0002
_REPR_CHARS = 200


class Reporter(Protocol):
    """Who is told where a role answers and that it is ready: the run files, or the parent at the end of a pipe."""

    def opened(self, addresses: dict[str, str]) -> None: ...

    def ready(self) -> None: ...

    def ask_for(self, process: str) -> None: ...


@dataclass(frozen=True, slots=True)
class RoleInstance:
    """One role instance to run; `named_log` puts its name in every log line."""

    role: Role
    service_id: int
    config: Config
    reporter: Reporter
    named_log: bool = False


async def run_service(service: RoleInstance, stop: asyncio.Event, *, alone: bool = False) -> None:
    """Serves health, opens the role, reports, and closes all in reverse order once `stop` is set.

    A role that is still opening then is cancelled: what it waits for may never come. `alone`: it has its own process.
    """
    if alone:
        SURVIVORS.begin()
        sys.setswitchinterval(_SWITCH_SECONDS)
    _allow_open_files()
    messages.load_all()
    check_listeners(service.config, [service.role.name])
    environment = environment_for(service)
    if alone:
        limit_unraisable(environment)
    opened: Opened | None = None
    pages = http.Pages(
        environment.registry,
        lambda: opened is not None and opened.ready.is_set(),
        lambda: _health(opened),
        lambda: _before_metrics(opened),
    )
    server = await http.serve_pages(
        pages, service.config.health_listen, _health_port(service.config), environment.clock
    )
    abandon = os._exit if alone else None
    try:
        async with (
            cancelled_by(stop, environment.clock, environment.log, abandon) as opening,
            _watching_secret(service.config, environment),
            service.role.open(service.config, environment) as opened,
        ):
            opening.set()
            host, port = server.sockets[0].getsockname()[:2]
            service.reporter.opened({**opened.addresses, "http": str(Address(host, port))})
            if await _ready_before(opened, stop):
                service.reporter.ready()
                if alone:
                    SURVIVORS.keep_all()  # what start-up built lives forever: collections need not walk it
                await stop.wait()
            environment.log.info("stopping")
    finally:
        server.close()


def limit_unraisable(environment: Environment) -> None:
    """Has the log say what Python cannot raise, as of a TLS client that asks for a host by bytes that are no name.

    Python writes a traceback to stderr for each, and clients can cause as many as they like.
    """
    ignored = SeldomWarning(environment.log, environment.clock.monotonic_ms, "exception ignored")

    def say(unraisable: sys.UnraisableHookArgs) -> None:
        ignored.say(why=lambda: _short(unraisable.exc_value), where=lambda: _short(unraisable.object))

    sys.unraisablehook = say


def _short(thing: object) -> str:
    return printable(repr(thing)[:_REPR_CHARS])


@contextlib.asynccontextmanager
async def _watching_secret(config: Config, environment: Environment) -> AsyncIterator[None]:
    """While open, a change of the cluster's secret is taken up."""
    if environment.secret is None:
        yield
        return
    path = secret_path(config, environment.data_dir)
    watch = SecretWatch(path, environment.secret, environment.clock, environment.log)
    async with in_background(watch.run()):
        yield


def _allow_open_files() -> None:
    """Raises the soft limit to the hard one: Debian's default of 1,024 is fewer than the connections we must hold."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def environment_for(service: RoleInstance) -> Environment:
    """The real world for one role instance."""
    data_dir = Path(service.config.data_dir).absolute()
    run_dir = Path(service.config.run_dir) if service.config.run_dir else data_dir / "run"
    return Environment(
        clock=SystemClock(),
        random=random.Random(),
        log=logs.logger(service.role.name, service.service_id, named=service.named_log),
        data_dir=data_dir,
        run_dir=run_dir.absolute(),
        boot_id=boot_id(),
        registry=_registry(),
        secret=read_secret(service.config, data_dir, f"{service.role.name}-{service.service_id}"),
        ask_for=service.reporter.ask_for,
    )


def _registry() -> CollectorRegistry:
    from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

    from tailrace.runtime.process_metrics import ProcessMetrics

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    registry.register(ProcessMetrics())
    return registry


def _health_port(config: Config) -> int:
    port: int = config.health_port
    return port


def _health(opened: Opened | None) -> dict[str, bool]:
    health: Callable[[], dict[str, bool]] | None = getattr(opened, "health", None)
    return {"opened": opened is not None, **(health() if health else {})}


async def _before_metrics(opened: Opened | None) -> None:
    prepare: Callable[[], Awaitable[None]] | None = getattr(opened, "before_metrics", None)
    if prepare is not None:
        await prepare()


async def _ready_before(opened: Opened, stop: asyncio.Event) -> bool:
    """Waits for either; a role that is told to stop before it is ready stops."""
    waits = [asyncio.ensure_future(event.wait()) for event in (opened.ready, stop)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return not stop.is_set()

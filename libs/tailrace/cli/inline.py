"""`tailrace up --inline`: the same plan in one process and one event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tailrace.cli.plan import Instance
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.config_providers import resolve
from tailrace.runtime.inline import run_services
from tailrace.runtime.process import run_loop
from tailrace.runtime.role import Role
from tailrace.runtime.role_instance import RoleInstance
from tailrace.runtime.run_files import RunFile, start_ticks

_STDIN, _READ_BYTES = 0, 65_536


class InlineReporter:
    """Keeps an instance's run files and tells when the last of all became ready."""

    def __init__(self, instance: Instance, run_dir: Path, changed: Callable[[], None]) -> None:
        pid = os.getpid()
        self.run_file = RunFile(*instance, pid, start_ticks(pid), SystemClock().wall_ms())
        self._run_dir = run_dir
        self._changed = changed
        self.run_file.write(run_dir)

    def opened(self, addresses: dict[str, str]) -> None:
        self._become(ready=False, addresses=addresses)

    def ready(self) -> None:
        self._become(ready=True, addresses=self.run_file.addresses)
        self._changed()

    def ask_for(self, process: str) -> None:
        """Debuggers and tests have the roles alone."""

    def _become(self, *, ready: bool, addresses: dict[str, str]) -> None:
        old = self.run_file
        self.run_file = RunFile(old.role, old.id, old.pid, old.start_ticks, old.since_ms, ready, addresses)
        self.run_file.write(self._run_dir)


def _stop_at_eof(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def on_stdin() -> None:
        if not os.read(_STDIN, _READ_BYTES):
            loop.remove_reader(_STDIN)
            stop.set()

    try:
        loop.add_reader(_STDIN, on_stdin)
    except PermissionError:  # epoll takes no file and no /dev/null, which are read to their end at once
        while os.read(_STDIN, _READ_BYTES):
            pass
        stop.set()


def run(
    instances: Sequence[Instance],
    settings: Callable[[Instance], Mapping[str, str]],
    find_role: Callable[[str], Callable[[], Role]],
    run_dir: Path,
    on_ready: Callable[[Sequence[RunFile]], None],
    *,
    until_eof: bool = False,
) -> int:
    """Runs all roles in one loop until SIGTERM, SIGINT or the end of stdin; `on_ready` is called once, when all are."""
    from tailrace.config import Config

    def changed() -> None:
        if all(reporter.run_file.ready for reporter in reporters):
            on_ready([reporter.run_file for reporter in reporters])

    reporters = [InlineReporter(instance, run_dir, changed) for instance in instances]
    services = [
        RoleInstance(
            find_role(instance.role)(),
            instance.id,
            Config.load(instance.role, None, os.environ, settings(instance), resolve=resolve),
            reporter,
            named_log=True,
        )
        for instance, reporter in zip(instances, reporters, strict=True)
    ]

    async def body(stop: asyncio.Event) -> None:
        if until_eof:
            _stop_at_eof(stop)
        await run_services(services, stop)

    try:
        run_loop(body)
    finally:
        for reporter in reporters:
            reporter.run_file.remove(run_dir)
    return 0

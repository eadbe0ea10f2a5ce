"""`python -m tailrace_broker --config server.properties --set key=value`: one role as this process."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tailrace.private_files import make_umask_private, private_data_dir, private_folder
from tailrace.runtime import logs
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.config_providers import resolve
from tailrace.runtime.role import Role
from tailrace.runtime.role_instance import RoleInstance, run_service
from tailrace.runtime.run_files import RunFile, start_ticks

if TYPE_CHECKING:
    from tailrace.config import Config

REFUSED = 1
USAGE_ERROR = 2
INSECURE = "allow.insecure.listeners=true"
# A port, a right or space that the operator has to give; anything else is shown with its traceback.
_OUTSIDE = {errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES, errno.ENOSPC, errno.EROFS}

_STOPS = (signal.SIGTERM, signal.SIGINT)
_THREADS_SECONDS = 0.5


class FileReporter:
    """A role started by hand keeps its own run files and logs that it is ready."""

    def __init__(self, run_dir: Path, role: str, service_id: int) -> None:
        self._run_dir = run_dir
        self._addresses: dict[str, str] = {}
        self._started = RunFile(role, service_id, os.getpid(), start_ticks(os.getpid()), SystemClock().wall_ms())
        private_folder(run_dir)

    def begin(self) -> None:
        """Says that the process is there; `remove` says that it is not."""
        self._write(ready=False)

    def opened(self, addresses: dict[str, str]) -> None:
        self._addresses = addresses
        self._write(ready=False)

    def ready(self) -> None:
        self._write(ready=True)
        logs.logger(self._started.role, self._started.id, named=False).info("ready", **self._addresses)

    def ask_for(self, process: str) -> None:
        """The operator of roles that are started by hand starts it, too."""

    def remove(self) -> None:
        self._started.remove(self._run_dir)

    @classmethod
    def refuse_a_second(cls, run_dir: Path, role: str, service_id: int) -> None:
        """Leaves with a sentence if the same instance runs already: two would take each other's socket away."""
        running = RunFile.read(run_dir / f"{role}-{service_id}.json")
        if running and running.is_running():
            leave(f"{running.name} already runs here: pid {running.pid}. Another needs its own node.id.", REFUSED)

    def _write(self, *, ready: bool) -> None:
        s = self._started
        RunFile(s.role, s.id, s.pid, s.start_ticks, s.since_ms, ready, self._addresses).write(self._run_dir)


def main(role: Role, arguments: Sequence[str] | None = None) -> None:
    """Runs the role until SIGTERM or SIGINT; exits with 0, or 2 and one sentence where the settings are wrong."""
    make_umask_private()
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in role.commands:
        raise SystemExit(role.commands[given[0]](given[1:]))
    options = _parser(role).parse_args(given)
    logs.configure(options.log_format or logs.default_format(), options.log_level)
    config = load_config(role.name, options.config, [*options.set, *([INSECURE] if options.insecure else ())])
    run_dir = Path(config.run_dir or Path(config.data_dir) / "run").absolute()
    FileReporter.refuse_a_second(run_dir, role.name, config.node_id)
    try:
        private_data_dir(Path(config.data_dir).absolute())
    except OSError as error:
        leave(f"data.dir {config.data_dir} cannot be used: {error.strerror}", REFUSED)
    for warning in config.warnings:
        logs.logger(role.name, config.node_id, named=False).warning(warning)
    # Until the loop handles them: an exception out of a handler ends an import anywhere, with whatever status.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    reporter = FileReporter(run_dir, role.name, config.node_id)
    try:
        reporter.begin()
        live(RoleInstance(role, config.node_id, config, reporter))
    finally:
        reporter.remove()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the interpreter would wait for threads: for one that connects to a host that is away, say


def live(service: RoleInstance) -> None:
    """The whole life of a process that is one role; leaves with one sentence where the machine does not allow it."""
    try:
        run_loop(lambda stop: run_service(service, stop, alone=True))
    except _refusals() as refused:
        leave(f"{service.role.name}-{service.service_id}: {refused}", REFUSED)
    except socket.gaierror as error:
        leave(f"{service.role.name}-{service.service_id}: a host of its settings has no address: {error}", REFUSED)
    except OSError as error:
        if error.errno not in _OUTSIDE:
            raise
        leave(f"{service.role.name}-{service.service_id}: {error}", REFUSED)


def _refusals() -> tuple[type[Exception], ...]:
    """Looked up when something was raised: importing them is not part of the start."""
    from tailrace.config import ConfigError
    from tailrace.log.directory.log_dir import LogDirRefused

    return ConfigError, LogDirRefused


def load_config(role: str, file: str | None, settings: Sequence[str]) -> Config:
    """Flag over environment over file over default; leaves with one sentence where a setting is wrong."""
    from tailrace.config import Config, ConfigError

    try:
        text = Path(file).read_text() if file else None
        overrides = dict(setting(item) for item in settings)
        name = file or "server.properties"
        config = Config.load(role, text, os.environ, overrides, file_name=name, resolve=resolve)
        if config.node_id < 0:  # Kafka's "not set"; ids count from 0 here
            config = Config.load(role, text, os.environ, {**overrides, "node.id": "0"}, file_name=name, resolve=resolve)
        return config
    except (OSError, UnicodeDecodeError) as error:
        leave(f"--config {file} cannot be read: {getattr(error, 'strerror', None) or error}")
    except ConfigError as error:
        leave(str(error))


def setting(item: str) -> tuple[str, str]:
    """`key=value` as a pair; leaves with one sentence otherwise."""
    key, equals, value = item.partition("=")
    if not equals or not key:
        leave(f"--set {item}: expected key=value")
    return key.strip(), value


def leave(sentence: str, status: int = USAGE_ERROR) -> NoReturn:
    sys.stderr.write(f"tailrace: {sentence}\n")
    raise SystemExit(status)


def run_loop(body: Callable[[asyncio.Event], Coroutine[None, None, None]]) -> None:
    """Runs `body` on uvloop; its event is set by the first SIGTERM or SIGINT, the second one ends the process.

    Signals that were blocked until then, and came, count.
    """
    import uvloop

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def on_signal(number: int) -> None:
            if stop.is_set():
                os._exit(128 + number)
            stop.set()

        for number in _STOPS:
            loop.add_signal_handler(number, on_signal, number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        await body(stop)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.get_loop().set_default_executor(_Threads())
        runner.run(run())


class _Threads(ThreadPoolExecutor):
    """The loop's threads, waited for at the end of the loop, but not forever: one may wait for a disk that hangs."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)
        if wait:
            waiting = threading.Thread(target=super().shutdown, daemon=True)
            waiting.start()
            waiting.join(_THREADS_SECONDS)


def _parser(role: Role) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"tailrace {role.name}",
        description=f"Runs one {role.name} process. Keys are Kafka's; "
        "flag over KAFKA_… variable over file over default.",
        epilog=f"Other commands, each with --help: {', '.join(role.commands)}." if role.commands else None,
    )
    parser.add_argument("--config", metavar="FILE", help="a .properties file")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="one setting; may be repeated")
    parser.add_argument("--insecure", action="store_true", help="let other machines use ports that ask for no login")
    parser.add_argument("--log-format", choices=logs.FORMATS, help="default: colour on a terminal, else logfmt")
    parser.add_argument("--log-level", choices=logs.LEVELS, default="info")
    return parser

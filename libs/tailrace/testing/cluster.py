"""A cluster of real processes, started by `tailrace up` on free ports, that tests may hurt."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from tailrace.net.address import Address
from tailrace.private_files import private_data_dir, private_opener
from tailrace.runtime.run_files import RunFile
from tailrace.testing import admin
from tailrace.testing.events import ClusterDied, Event, Events
from tailrace.testing.stopped import stop_process

if TYPE_CHECKING:
    from tailrace.testing.network import Network

_START_SECONDS = 240.0
_STOP_SECONDS = 60.0
_LAST_LOG_BYTES = 8_000
UP_COMMAND = (sys.executable, "-m", "tailrace.cli", "up")
_REFUSES: Final = 2.0  # of log_dir_pressure
_FULL: Final = str((1 << 63) - 1)
_FULL_DISK: Final = {"log.dir.pressure.slow.bytes": _FULL, "log.dir.pressure.refuse.bytes": _FULL}


class Cluster:
    """Attributes once started: `bootstrap` and `admin` (addresses), `data_dir`; `network` with `proxied`.

    Every method blocks. In a coroutine use `async with Cluster()`, and asyncio.to_thread for the methods.
    """

    def __init__(
        self,
        *,
        brokers: int | None = None,
        gateways: int | None = None,
        port: int = 0,
        admin_port: int = 0,
        data_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        command: Sequence[str] = UP_COMMAND,
        proxied: bool = False,
    ) -> None:
        """`settings` go to --set, `arguments` are further options of `up`; without data_dir it has a temporary one.

        port: of node 0, where `settings` do not name listeners.

        With `proxied`, clients connect through `network`, which can be cut, hung and slowed down.
        """
        self._temporary = None if data_dir else tempfile.TemporaryDirectory(prefix="tailrace-")
        self.data_dir = data_dir or Path(self._temporary.name if self._temporary else "")
        self._command = [*command, "--json", "--until-eof", "--data", str(self.data_dir)]
        self._command += [] if "listeners" in (settings or {}) else ["--port", str(port)]
        self._command += ["--admin-port", str(admin_port), *arguments]
        self._network: Network | None = None
        if proxied:
            from tailrace.testing.network import Network

            self._network = Network(brokers or 1)
            self._command += ["--advertise", f"127.0.0.1:{self._network.port}"]
        for option, count in (("--brokers", brokers), ("--gateways", gateways)):
            self._command += [option, str(count)] if count else []
        for key, value in (settings or {}).items():
            self._command += ["--set", f"{key}={value}"]
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None
        self._events: Events | None = None
        self.log_path = self.data_dir / "up.log"
        self._log_start = 0
        self.bootstrap = ""
        self._gateway = ""
        self.admin = ""

    # -- life -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def start(self, timeout_seconds: float = _START_SECONDS) -> None:
        """Returns when all roles are ready. Raises ClusterDied or TimeoutError with the last log lines."""
        self.launch()
        try:
            ready = self.wait_for("all_ready", timeout_seconds=timeout_seconds)
        except (TimeoutError, ClusterDied) as error:
            self.stop()
            log = self.last_log().strip()
            if isinstance(error, ClusterDied) and log:
                raise ClusterDied(log) from None
            raise type(error)(f"{error}\n{log}") from None
        self.bootstrap = self._gateway = ready["bootstrap"]
        self.admin = ready["admin"]
        if self._network:
            self._network.lead_to(*Address.parse(self._gateway))
            self.bootstrap = f"127.0.0.1:{self._network.port}"

    def launch(self) -> None:
        """Starts `up` and returns at once."""
        assert self._process is None, "already started"
        private_data_dir(self.data_dir)
        with open(self.log_path, "ab", opener=private_opener) as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=dict(self._environ) if self._environ is not None else None,
                start_new_session=True,  # Ctrl-C at pytest ends the test, whose close() stops the cluster in order
            )
        assert self._process.stdout
        self._events = Events(self._process.stdout)

    def stop(self, timeout_seconds: float = _STOP_SECONDS) -> int:
        """Ends the cluster as Ctrl-C would and returns the exit status of `up`; the data stays."""
        process, events = self._process, self._events
        if process is None or events is None:
            return 0
        assert process.stdin
        process.stdin.close()
        try:
            status = process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        events.close()
        self._process = self._events = None
        return status

    def wait(self) -> int:
        """Waits until `up` ends by itself and returns its exit status."""
        assert self._process is not None
        return self._process.wait()

    def close(self) -> None:
        """Stops the cluster and removes its directory if that is a temporary one."""
        self.stop()
        if self._network:
            self._network.close()
            self._network = None
        if self._temporary:
            self._temporary.cleanup()

    # -- what runs ------------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """Of `up` itself."""
        assert self._process
        return self._process.pid

    def process_id(self, role: str, service_id: int = 0) -> int:
        """Of one running role. Raises ValueError with those that run."""
        return self._run_file(role, service_id).pid

    def _run_file(self, role: str, service_id: int) -> RunFile:
        run_dir = self.data_dir / "run"
        found = RunFile.read(run_dir / f"{role}-{service_id}.json")
        if found is None:
            known = sorted(path.stem for path in run_dir.glob("*-*.json"))
            raise ValueError(f"no {role}-{service_id} runs, only {', '.join(known) or 'nothing'}")
        return found

    def addresses(self, role: str, service_id: int = 0) -> dict[str, str]:
        """Where a ready role answers; "http" serves /healthz, /readyz and /metrics."""
        ready = self.wait_for("ready", role, service_id, timeout_seconds=0)
        found: dict[str, str] = ready["addresses"]
        return found

    def metric(self, name: str, role: str, service_id: int = 0) -> float:
        """A metric of one running role that has no labels, by its name in docs/metrics.md."""
        http = self._run_file(role, service_id).addresses["http"]
        with urllib.request.urlopen(f"http://{http}/metrics", timeout=_START_SECONDS) as answer:
            rows = [line.split() for line in answer.read().decode().splitlines() if line[0] != "#"]
        found = [row[-1] for row in rows if row[0] in {name, f"tailrace_{name}"}]
        if len(found) != 1:
            known = sorted(row[0].removeprefix("tailrace_") for row in rows if "{" not in row[0])
            raise ValueError(f"{role}-{service_id} has no metric {name} without labels, only {', '.join(known)}")
        return float(found[0])

    def last_log(self) -> str:
        """The end of what all roles logged since the start."""
        return self.log_path.read_bytes()[self._log_start :][-_LAST_LOG_BYTES:].decode(errors="replace")

    # -- topics ---------------------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, *, replicas: int = -1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Returns when each partition has a leader; -1: default.replication.factor."""
        admin.create_topic(self._gateway, name, partitions, replicas, configs or {})

    def delete_topic(self, name: str) -> None:
        """Also of a topic that is gone already."""
        admin.delete_topic(self._gateway, name)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads, -1 if none does. Raises ValueError for an unknown topic or partition."""
        return int(admin.partition(self._gateway, topic, partition).leader_id)

    # -- events and faults ----------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """A mark: give it to wait_for as `since` to wait for what happens from here on."""
        assert self._events is not None
        return len(self._events)

    def wait_for(
        self,
        event: str,
        role: str | None = None,
        service_id: int | None = None,
        *,
        since: int = 0,
        timeout_seconds: float = _START_SECONDS,
    ) -> Event:
        """Events of a role: started, opened, ready, silent, answers, hung, died, gave_up, stopped, overdue.

        Of all: all_ready, stopping.
        """
        assert self._events is not None
        return self._events.wait(
            lambda seen: (
                seen.get("event") == event and role in {None, seen.get("role")} and service_id in {None, seen.get("id")}
            ),
            timeout_seconds,
            since,
        )

    def wait_next(self, number: int, timeout_seconds: float = _START_SECONDS) -> Event:
        """Event number `number`, counted from 0, as soon as it is there."""
        assert self._events is not None
        return self._events.wait(lambda _: True, timeout_seconds, number)

    def kill(self, role: str, service_id: int = 0, number: signal.Signals = signal.SIGKILL) -> int:
        """Sends the signal; SIGKILL waits for the death. Returns a mark for wait_for."""
        mark = self.now
        os.kill(self.process_id(role, service_id), number)
        if number == signal.SIGKILL:
            self.wait_for("died", role, service_id, since=mark)
        return mark

    def pause(self, role: str, service_id: int = 0) -> None:
        stop_process(self.process_id(role, service_id))

    def resume(self, role: str, service_id: int = 0) -> None:
        os.kill(self.process_id(role, service_id), signal.SIGCONT)

    @contextmanager
    def paused(self, role: str, service_id: int = 0) -> Iterator[None]:
        """The process stands still inside the block, as on a machine that swaps; `up` replaces a gateway after 10 s."""
        paused = self.process_id(role, service_id)
        stop_process(paused)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.kill(paused, signal.SIGCONT)

    @property
    def network(self) -> Network:
        """Between clients and this cluster; only with `proxied=True`."""
        assert self._network, "Cluster(proxied=True) has a network"
        return self._network

    @contextmanager
    def disk_full(self, broker: int = 0) -> Iterator[None]:
        """A broker's disk has no room inside the block: producers get KAFKA_STORAGE_ERROR, consumers read on.

        The broker's marks are raised (log.dir.pressure.*); no byte of the disk is taken.
        """
        before = self.metric("log_dir_pressure", "broker", broker)
        admin.set_broker_configs(self._gateway, broker, _FULL_DISK)
        try:
            admin.until(lambda: self.metric("log_dir_pressure", "broker", broker) == _REFUSES, "producers are refused")
            yield
        finally:
            admin.set_broker_configs(self._gateway, broker, dict.fromkeys(_FULL_DISK))
            admin.until(lambda: self.metric("log_dir_pressure", "broker", broker) <= before, "producers are taken")

    def expire_session(self, broker: int) -> None:
        """Pauses a broker for longer than broker.session.timeout.ms: it is fenced and has lost its leaders."""
        with self.paused("broker", broker):
            admin.until(lambda: admin.is_fenced(self._gateway, broker), f"broker {broker} is fenced")
        admin.until(lambda: not admin.is_fenced(self._gateway, broker), f"broker {broker} is back")

    def expire_members(self, group: str) -> int:
        """Takes all members out of a consumer group, as when their sessions expire; returns how many there were."""
        return admin.remove_members(self._gateway, group)

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Makes another replica lead, and returns when clients are told so."""
        admin.move_leader(self._gateway, topic, partition, broker)

    def kill_all(self) -> None:
        """kill -9 of `up` and every role at once, as a power cut of the processes; start() works again afterwards."""
        process, events = self._process, self._events
        assert process is not None and events is not None
        process.kill()  # the kernel takes the children with it (PR_SET_PDEATHSIG)
        process.wait()
        if process.stdin:
            process.stdin.close()
        events.close()
        self._process = self._events = None

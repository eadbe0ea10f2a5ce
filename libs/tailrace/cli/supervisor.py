"""Keeps the children of `up` running: starts them, shows their logs, restarts the dead, stops all in reverse order.

One thread, no event loop: everything is a file descriptor in one selector (pidfd for deaths, pipes for logs and
reports, a wakeup descriptor for signals), and its timeout is the next deadline.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from tailrace.cli import forking
from tailrace.cli.liveness import LOOKED_EVERY_MS, NOTICED_MS, OVERDUE_MS, LivenessStep, Probe
from tailrace.cli.plan import Instance
from tailrace.cli.restarts import DEATHS_MAX, Restarts
from tailrace.cli.screen import Outlet, Screen
from tailrace.clock import Clock
from tailrace.runtime.run_files import RunFile, start_ticks

_READ_BYTES = 65_536
_LINE_BYTES_MAX = 16_384
_LAST_LINES = 20
_STOP_PATIENCE_MS = 30_000.0  # ten thousand logs that must be synced take ten seconds on a busy machine


class Child:
    """One instance over all its lives."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.name = instance.name
        self.restarts = Restarts()
        self.process: forking.Forked | None = None
        self.run_file: RunFile | None = None
        self.probe: Probe | None = None
        self.restart_at_ms: float | None = None
        self.kill_at_ms: float | None = None
        self.last_lines: deque[bytes] = deque(maxlen=_LAST_LINES)
        self.log_rest = b""
        self.report_rest = b""

    @property
    def is_ready(self) -> bool:
        return self.run_file is not None and self.run_file.ready

    @property
    def addresses(self) -> dict[str, str]:
        return self.run_file.addresses if self.run_file else {}


class Supervisor:
    """`body(instance, report_fd)` is the child's life; `on_ready(children)` is called once, when all are ready."""

    def __init__(
        self,
        instances: Sequence[Instance],
        body: Callable[[Instance, int], int],
        on_ready: Callable[[Sequence[Child]], None],
        screen: Screen,
        run_dir: Path,
        clock: Clock,
        *,
        restart: bool = True,
        leave_parent: Callable[[], None] = lambda: None,
        companion: Callable[[str], Instance | None] = lambda name: None,
        chore: tuple[float, Callable[[], None]] | None = None,
    ) -> None:
        """companion: the instance that a child asks for; everything goes on without one that does not start.

        chore: work of this process, and every how many milliseconds it is done.
        """
        self.children = [Child(instance) for instance in instances]
        self._body = body
        self._on_ready = on_ready
        self._screen = screen
        self._run_dir = run_dir
        self._clock = clock
        self._restart = restart
        self._leave_parent = leave_parent
        self._companion = companion
        self._companions: set[str] = set()
        self._announced = False
        self._chore = chore
        self._chore_at_ms = None if chore is None else clock.monotonic_ms() + chore[0]
        self._look_at_ms: float | None = None
        self._stopping: list[list[Child]] | None = None
        self._status = 0
        self._selector = selectors.PollSelector()
        self._wakeup_read, self._wakeup_write = socket.socketpair()

    # -- life -----------------------------------------------------------------------------------------------------

    def run(self, *, until_eof: bool = False) -> int:
        """Starts all and returns when the last child is gone: 0, or the status of the child that made it stop."""
        self._catch_signals()
        if until_eof:
            self._selector.register(0, selectors.EVENT_READ, self._on_stdin)
        for child in self.children:
            self._start(child)
        while any(child.process or child.restart_at_ms is not None for child in self.children):
            for key, _ in self._selector.select(self._timeout_seconds()):
                key.data()
            self._watch_outlets()
            self._act_on_deadlines()
        self._selector.close()
        return self._status

    def stop(self, status: int = 0) -> None:
        """Stops role by role, the last started first."""
        if self._stopping is not None:
            return
        self._status = status
        for child in self.children:
            child.restart_at_ms = None
        roles = list(dict.fromkeys(child.instance.role for child in self.children))
        self._stopping = [[c for c in self.children if c.instance.role == role] for role in roles]
        self._stop_next()

    def _stop_next(self) -> None:
        assert self._stopping is not None
        while self._stopping and not any(child.process for child in self._stopping[-1]):
            self._stopping.pop()
        for child in self._stopping[-1] if self._stopping else ():
            if child.process and child.kill_at_ms is None:
                child.kill_at_ms = self._clock.monotonic_ms() + _STOP_PATIENCE_MS
                signal.pidfd_send_signal(child.process.pid_fd, signal.SIGTERM)

    def _start(self, child: Child) -> None:
        child.restart_at_ms = None
        process = forking.fork(child.name, lambda report_fd: self._body(child.instance, report_fd), self._leave)
        child.process = process
        child.last_lines.clear()
        now_ms = self._clock.wall_ms()
        child.run_file = RunFile(*child.instance, process.pid, start_ticks(process.pid), now_ms)
        child.run_file.write(self._run_dir)
        self._selector.register(process.pid_fd, selectors.EVENT_READ, lambda: self._on_death(child, process))
        self._selector.register(process.log_fd, selectors.EVENT_READ, lambda: self._on_log(child, process))
        self._selector.register(process.report_fd, selectors.EVENT_READ, lambda: self._on_report(child, process))
        self._event(child, "started", "started")

    def _leave(self) -> None:
        """In the child: lets go of what belongs to the parent."""
        for child in self.children:
            if child.probe:
                child.probe.close()
            if child.process:
                for fd in child.process[1:]:
                    os.close(fd)
        self._selector.close()
        self._wakeup_read.close()
        self._wakeup_write.close()
        self._leave_parent()

    # -- what the selector reports --------------------------------------------------------------------------------

    def _catch_signals(self) -> None:
        self._wakeup_read.setblocking(False)
        self._wakeup_write.setblocking(False)
        signal.set_wakeup_fd(self._wakeup_write.fileno())
        for number in forking.SIGNALS:
            signal.signal(number, lambda *_: None)
        self._selector.register(self._wakeup_read, selectors.EVENT_READ, self._on_signal)

    def _on_signal(self) -> None:
        numbers = self._wakeup_read.recv(64)
        if self._stopping is None:
            self._screen.event("Stopping (once more to kill at once) …", event="stopping")
            self.stop()
        elif any(number in forking.SIGNALS for number in numbers):
            for child in self.children:
                if child.process:
                    signal.pidfd_send_signal(child.process.pid_fd, signal.SIGKILL)

    def _on_stdin(self) -> None:
        if not os.read(0, _READ_BYTES):
            self._selector.unregister(0)
            self.stop()

    def _on_log(self, child: Child, process: forking.Forked) -> None:
        data = _read(process.log_fd) if child.process is process else None
        if data is None:
            return  # nothing, or an event of a process whose death was seen in the same round
        *lines, child.log_rest = (child.log_rest + data).split(b"\n")
        if len(child.log_rest) > _LINE_BYTES_MAX or not data:
            lines, child.log_rest = [*lines, child.log_rest], b""
        for line in filter(None, lines):
            child.last_lines.append(line)
            self._screen.log(child.name, line)
        if not data:
            self._selector.unregister(process.log_fd)

    def _on_report(self, child: Child, process: forking.Forked) -> None:
        data = _read(process.report_fd) if child.process is process else None
        if data == b"":
            self._selector.unregister(process.report_fd)
        if not data:
            return
        *lines, child.report_rest = (child.report_rest + data).split(b"\n")
        for line in lines:
            report = json.loads(line)
            if "ask_for" in report:
                self._start_companion(report["ask_for"])
                continue
            was_ready = child.is_ready
            started = child.run_file
            assert started is not None
            child.run_file = RunFile(
                *child.instance,
                started.pid,
                started.start_ticks,
                started.since_ms,
                ready=report["ready"],
                addresses=report["addresses"],
            )
            child.run_file.write(self._run_dir)
            self._probe(child)
            if child.is_ready and not was_ready:
                self._became_ready(child)
            elif not child.is_ready:
                self._event(child, "opened", "is open", addresses=child.addresses)

    def _start_companion(self, name: str) -> None:
        if self._stopping is None and name not in self._companions and (instance := self._companion(name)):
            self._companions.add(name)
            self.children.append(Child(instance))
            self._start(self.children[-1])

    def _became_ready(self, child: Child) -> None:
        child.restarts.ready(self._clock.monotonic_ms())
        self._event(child, "ready", "is ready", addresses=child.addresses)
        if not self._announced and all(
            other.is_ready for other in self.children if other.instance.role not in self._companions
        ):
            self._announced = True
            self._on_ready(self.children)

    def _on_death(self, child: Child, process: forking.Forked) -> None:
        if process.report_fd in self._selector.get_map():
            self._on_report(child, process)
        while process.log_fd in self._selector.get_map() and _readable(process.log_fd):
            self._on_log(child, process)
        status = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        for fd in process[1:]:
            if fd in self._selector.get_map():
                self._selector.unregister(fd)
            os.close(fd)
        child.process = None
        if child.probe:
            child.probe.close()
            child.probe = None
        child.kill_at_ms = None
        child.log_rest = child.report_rest = b""
        if child.run_file:
            if self._stopping is None:
                child.run_file.died(self._run_dir)
            else:
                child.run_file.remove(self._run_dir)
            child.run_file = None
        self._after_death(child, status)

    def _after_death(self, child: Child, status: int) -> None:
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        if self._stopping is not None:
            self._event(child, "stopped", how if status else "stopped", status=status)
            self._stop_next()
            return
        pause_ms = child.restarts.died(self._clock.monotonic_ms()) if self._restart else -1.0
        if pause_ms is None and child.instance.role in self._companions:
            self._event(child, "gave_up", f"{how}, {DEATHS_MAX} times in a row before it was ready", status=status)
        elif pause_ms is None:
            self._give_up(child, how, status)
        elif pause_ms < 0:
            self._event(child, "died", f"{how} and is left dead (--no-restart)", status=status)
        else:
            when = f"in {pause_ms / 1000:g} s" if pause_ms else "at once"
            self._event(child, "died", f"{how}; it is started again {when}", status=status)
            child.restart_at_ms = self._clock.monotonic_ms() + pause_ms

    def _give_up(self, child: Child, how: str, status: int) -> None:
        self._event(
            child, "gave_up", f"{how}, {DEATHS_MAX} times in a row before it was ready; everything stops", status=status
        )
        for line in child.last_lines:
            self._screen.log(child.name, b"  last lines: " + line)
        self.stop(128 - status if status < 0 else status or 1)

    # -- deadlines ------------------------------------------------------------------------------------------------

    def _timeout_seconds(self) -> float | None:
        deadlines = [at for child in self.children for at in (child.restart_at_ms, child.kill_at_ms) if at is not None]
        deadlines += [at for at in (self._look_at_ms, self._chore_at_ms) if at is not None]
        return max(0.0, min(deadlines) - self._clock.monotonic_ms()) / 1000 if deadlines else None

    def _act_on_deadlines(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._look_at_ms is not None and self._look_at_ms <= now_ms:
            self._look_at_ms = now_ms + LOOKED_EVERY_MS
            for child in self.children:
                self._look(child, now_ms)
        if self._chore is not None and self._chore_at_ms is not None and self._chore_at_ms <= now_ms:
            self._chore_at_ms = now_ms + self._chore[0]
            self._chore[1]()
        for child in self.children:
            if child.restart_at_ms is not None and child.restart_at_ms <= now_ms:
                self._start(child)
            if child.kill_at_ms is not None and child.kill_at_ms <= now_ms and child.process:
                child.kill_at_ms = None
                self._event(child, "overdue", f"did not stop within {_STOP_PATIENCE_MS / 1000:g} s and is killed")
                signal.pidfd_send_signal(child.process.pid_fd, signal.SIGKILL)

    # -- children that hang -----------------------------------------------------------------------------------------

    def _probe(self, child: Child) -> None:
        """Gateways alone: they keep nothing, so that ending one that hangs frees its clients and costs nothing else."""
        if child.probe is None and child.instance.role == "gateway" and "http" in child.addresses:
            child.probe = Probe(self._selector, child.addresses["http"])
            self._look_at_ms = self._look_at_ms or self._clock.monotonic_ms()

    def _look(self, child: Child, now_ms: float) -> None:
        if child.probe is None or child.process is None or self._stopping is not None:
            return
        verdict = child.probe.look(now_ms)
        if child.probe.came_back:
            child.probe.came_back = False
            self._event(child, "answers", "answers again")
        if verdict is LivenessStep.TELL:
            self._event(child, "silent", f"does not answer for {NOTICED_MS / 1000:g} s; its clients wait")
        elif verdict is LivenessStep.KILL and self._restart:
            self._event(child, "hung", f"does not answer for {OVERDUE_MS / 1000:g} s and is killed")
            signal.pidfd_send_signal(child.process.pid_fd, signal.SIGKILL)

    # -- output ---------------------------------------------------------------------------------------------------

    def _event(self, child: Child, event: str, sentence: str, **fields: object) -> None:
        pid = child.process.pid if child.process else None
        role, number = child.instance
        self._screen.child_event(child.name, sentence, event=event, role=role, id=number, pid=pid, **fields)

    def _watch_outlets(self) -> None:
        """A reader that is slow is waited for in the selector, not in write(2)."""
        self._screen.watch(self._watch_outlet)

    def _watch_outlet(self, outlet: Outlet) -> None:
        watched = outlet.fd in self._selector.get_map()
        if outlet.is_waiting and not watched:
            self._selector.register(outlet.fd, selectors.EVENT_WRITE, outlet.flush)
        elif watched and not outlet.is_waiting:
            self._selector.unregister(outlet.fd)


def _read(fd: int) -> bytes | None:
    """What the pipe holds now; None for nothing, b"" at its end."""
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return None


def _readable(fd: int) -> bool:
    with selectors.PollSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        return bool(selector.select(0))

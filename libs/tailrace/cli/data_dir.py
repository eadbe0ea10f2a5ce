"""DIR of one cluster: one `up` at a time, and nothing left over from the one before."""

from __future__ import annotations

import fcntl
import os
import select
import time
from pathlib import Path

from tailrace.cli.plan import ROLES
from tailrace.log.filesystem.checkpoints import META_PROPERTIES
from tailrace.private_files import FILE_MODE, private_data_dir, private_folder
from tailrace.runtime.run_files import RunFile

_ORPHAN_PATIENCE_MS = 5_000
_LEFTOVERS = (".pid", ".json", ".sock")


class UpRefused(Exception):
    """`up` cannot start; the text is a sentence for the person who typed it."""


class DataDir:
    """Holds DIR/run/up.lock (flock(2), so a killed `up` leaves none) until closed."""

    def __init__(self, path: Path, sockets: Path) -> None:
        """Takes the lock. Raises UpRefused, naming the `up` that holds it."""
        self.path = path
        self.run_dir = path / "run"
        self.sockets = sockets
        try:
            _refuse_log_directory(path)
            private_data_dir(path)
            private_folder(self.run_dir)
            private_folder(sockets)
            self.lock_fd = os.open(self.run_dir / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            raise UpRefused(f"{path} cannot be used: {error.strerror}. Choose another with --data DIR.") from None
        # In a folder of all, as /tmp, somebody else may have put a link there that leads to what is ours.
        owner = (sockets.stat() if sockets == self.run_dir else sockets.lstat()).st_uid
        if owner != os.geteuid():
            raise UpRefused(f"{sockets} belongs to somebody else. Choose a shorter --data DIR.")
        try:
            fcntl.flock(self.lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UpRefused(self._who_runs()) from None
        os.ftruncate(self.lock_fd, 0)
        os.write(self.lock_fd, f"{os.getpid()}\n".encode())

    def _who_runs(self) -> str:
        pid = os.read(self.lock_fd, 32).decode(errors="replace").strip() or "unknown"
        running = RunFile.read(self.run_dir / "up.json")
        if running is None or str(running.pid) != pid or not running.is_running():
            return f"Tailrace is just starting on {self.path} (pid {pid})."
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(running.since_ms / 1000))
        where = ", ".join(f"{name} {address}" for name, address in running.addresses.items())
        return (
            f"Tailrace already runs on {self.path}: pid {pid} since {since}, {where}. "
            f"Stop it with `kill {pid}`, or start another cluster with --data DIR --port PORT --admin-port PORT."
        )

    def clear(self) -> None:
        """Waits for what a killed `up` left dying, removes its files. Raises UpRefused if a role runs here alone."""
        for path in sorted(self.run_dir.glob("*.json")):
            left = RunFile.read(path)
            if left and left.role in ROLES and left.is_running() and not _dies(left):
                raise UpRefused(
                    f"{left.name} already runs on {self.path} by itself (pid {left.pid}). "
                    f"Stop it with `kill {left.pid}`."
                )
        for directory in {self.run_dir, self.sockets}:
            for path in directory.iterdir():
                if path.suffix in _LEFTOVERS and path.stem.split("-")[0] in {*ROLES, "up"}:
                    path.unlink(missing_ok=True)

    def brokers_left_out(self, count: int) -> list[int]:
        """Ids of brokers from an earlier start that hold partitions here and are not among the first `count`."""
        found = []
        for folder in self.path.glob("broker-*"):
            number = folder.name.removeprefix("broker-")
            if number.isdecimal() and int(number) >= count and any(_is_partition(entry) for entry in folder.iterdir()):
                found.append(int(number))
        return sorted(found)

    def announce(self, running: RunFile) -> None:
        running.write(self.run_dir)

    def close(self) -> None:
        for ending in _LEFTOVERS:
            (self.run_dir / f"up{ending}").unlink(missing_ok=True)
        os.close(self.lock_fd)


def _refuse_log_directory(path: Path) -> None:
    """What a data directory has beside it would keep Kafka from starting on its log directory again."""
    if (path / META_PROPERTIES).exists() and not (path / "run").exists():
        raise UpRefused(
            f"{path} is a log directory of Apache Kafka, or of one broker. `tailrace import-kafka` takes a Kafka over; "
            "a new cluster needs a directory of its own: --data DIR."
        )


def _is_partition(entry: Path) -> bool:
    """Kafka's folder name: topic-partition."""
    return entry.is_dir() and entry.name.rpartition("-")[2].isdecimal()


def _dies(left: RunFile) -> bool:
    """Children are killed by the kernel when their parent dies; this waits until that has happened."""
    try:
        pid_fd = os.pidfd_open(left.pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(pid_fd, select.POLLIN)
        return bool(poll.poll(_ORPHAN_PATIENCE_MS)) or not left.is_running()
    finally:
        os.close(pid_fd)

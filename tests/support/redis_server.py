"""A throw-away Redis server, as Debian's package has it: a subprocess of the test that keeps nothing on disk."""

import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from support.ports import HOST, free_ports
from support.waiting import until
from tailrace.testing.stopped import stop_process

MISSING = "redis-server: apt-get install -y redis-server"


class RedisServer:
    """One server on a port of its own; started again it is empty."""

    def __init__(self) -> None:
        self.port = free_ports(1)
        self.directory = Path(tempfile.mkdtemp(prefix="tailrace-redis-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.url_at(self.port)

    def url_at(self, port: int) -> str:
        """The URL of this server behind somebody's port."""
        return f"redis://{HOST}:{port}/0"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self, *more: str) -> None:
        """Returns when the server answers."""
        where = ("--port", str(self.port), "--bind", HOST, "--dir", str(self.directory))
        self._process = subprocess.Popen(
            ["redis-server", *where, "--save", "", "--appendonly", "no", *more],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: self.ask("PING") == "PONG", "redis-server")

    def ask(self, *command: str) -> str:
        """What redis-cli prints."""
        done = subprocess.run(
            ["redis-cli", "-h", HOST, "-p", str(self.port), *command], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    def pause(self) -> None:
        """It answers nobody; the kernel still takes connections for it."""
        assert self._process is not None
        stop_process(self._process.pid)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """As by kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

"""A throw-away PostgreSQL server, as Debian's package has it: initdb and postgres as subprocesses of the test."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from support.ports import HOST, free_ports
from tailrace.testing.stopped import stop_process

DEBIAN = Path("/usr/lib/postgresql")
USER = "postgres"
START_S = 30.0


def binary(name: str) -> str | None:
    """Where a program of the server is: on the PATH, else where Debian keeps it; None without one."""
    found = shutil.which(name)
    if found is None and DEBIAN.is_dir():
        versions = sorted(DEBIAN.iterdir(), key=lambda path: int(path.name) if path.name.isdigit() else 0)
        found = next((str(path / "bin" / name) for path in reversed(versions) if (path / "bin" / name).exists()), None)
    return None if found is None else str(Path(found).resolve())  # initdb looks for its neighbours


class Postgres:
    """One server on a port of its own and a directory below /tmp, which its user must be able to enter."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tailrace-pg-", dir="/tmp"))
        self.directory.chmod(0o755)
        self.data = self.directory / "data"
        self.port = free_ports(1)
        # PostgreSQL refuses to run as root
        self._user = USER if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self.directory, self._user, self._user)
        self._process: subprocess.Popen[str] | None = None
        self._run("initdb", "-D", str(self.data), "-A", "trust", "-U", USER, "--no-sync")

    @property
    def url(self) -> str:
        """Over TCP, where a proxy can stand in between."""
        return self.url_at(self.port)

    def url_at(self, port: int) -> str:
        """The URL of this server behind somebody's port."""
        return f"postgresql://{USER}@{HOST}:{port}/postgres"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, *more: str) -> None:
        """Returns when the server takes connections."""
        options = ["-k", str(self.directory), "-p", str(self.port), "-h", HOST, "-c", "fsync=off"]
        self._process = subprocess.Popen(
            [self._binary("postgres"), "-D", str(self.data), *options, "-c", "max_wal_senders=0", *more],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            user=self._user,
            group=self._user,
            cwd="/",
            start_new_session=True,
        )
        assert self._process.stderr is not None
        log = [""]
        while "ready to accept connections" not in log[-1]:
            line = self._process.stderr.readline()
            if not line:
                raise RuntimeError(f"PostgreSQL did not start: {''.join(log[-5:])}")
            log.append(line)
        # what it logs later is nobody's business, but it must not fill the pipe
        self._drain = subprocess.Popen(["cat"], stdin=self._process.stderr, stdout=subprocess.DEVNULL)
        self._process.stderr.close()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Fast shutdown; SIGQUIT is an immediate one, after which the server recovers as from a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._drain.wait()
            self._process = None

    def pause(self) -> None:
        """Stops all its processes: connections stay, nothing answers."""
        assert self._process is not None
        stop_process(self._process.pid)  # first: from here on its children stay the same, those that end as zombies
        for pid in self._children():
            stop_process(pid)

    def resume(self) -> None:
        """Lets them go on."""
        assert self._process is not None
        for pid in [*self._children(), self._process.pid]:
            os.kill(pid, signal.SIGCONT)

    def _children(self) -> list[int]:
        """Backends, which lead sessions of their own, and other processes of the server."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return list(map(int, children))

    def backup(self) -> Path:
        """A copy of a stopped server's data."""
        assert self._process is None
        copy = self.directory / "backup"
        shutil.rmtree(copy, ignore_errors=True)
        self._run("cp", "-a", str(self.data), str(copy))
        return copy

    def restore(self, copy: Path) -> None:
        """Puts a backup in the place of the data."""
        assert self._process is None
        shutil.rmtree(self.data)
        self._run("cp", "-a", str(copy), str(self.data))

    def query(self, sql: str) -> list[tuple[object, ...]]:
        """Runs one statement of its own; rows, if it has any."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def empty(self) -> str:
        """Drops everything, and whoever is connected; returns the URL."""
        self.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        self.query("DROP SCHEMA public CASCADE")
        self.query("CREATE SCHEMA public")
        return self.url

    def own_copy(self, file: Path) -> str:
        """A file that the server's user alone may read."""
        copy = self.directory / file.name
        shutil.copy(file, copy)
        copy.chmod(0o600)
        if self._user:
            shutil.chown(copy, self._user, self._user)
        return str(copy)

    def close(self) -> None:
        """Ends the server and removes its data."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _binary(self, name: str) -> str:
        return binary(name) or name

    def _run(self, name: str, *arguments: str) -> None:
        command = [self._binary(name), *arguments]
        done = subprocess.run(command, user=self._user, group=self._user, cwd="/", capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr.decode(errors='replace')}")

"""Every role ends at the first SIGTERM, whatever it waits for. On a quiet machine that takes two seconds at most."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.plugin import leave_out
from support.ports import HOST, free_ports
from support.postgres import Postgres, binary
from support.waiting import until
from tailrace.runtime.run_files import RunFile
from tailrace.testing import Cluster

DEADLINE_S = 25  # of a busy machine; what hangs does so for ever, or for half a minute
OTHERS = ("broker", "coordinator", "quota", "gateway")  # than the controller
ALL = ("controller", *OTHERS)
NOTHING, SILENT = "nothing", "silent"


@contextlib.contextmanager
def started(role: str, data_dir: Path, *settings: str) -> Iterator[subprocess.Popen[str]]:
    """A role by hand, with its log as JSON on stderr."""
    chosen = (f"gateway.port={free_ports(1)}", f"gateway.listen={HOST}", "admin.port=0", f"data.dir={data_dir}")
    options = [word for setting in (*chosen, *settings) for word in ("--set", setting)]
    command = [sys.executable, "-m", "tailrace.cli", role, *options, "--log-format", "json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def ends(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=DEADLINE_S) == 0


def logged(process: subprocess.Popen[str], words: str) -> None:
    """Returns when the process has logged that; what follows is read to the end by a thread."""
    assert process.stderr
    assert any(words in line for line in process.stderr), f"ended without: {words}"
    threading.Thread(target=process.stderr.read, daemon=True).start()


@contextlib.contextmanager
def controllers(kind: str, data_dir: Path) -> Iterator[socket.socket | None]:
    """Where roles look for a controller: nothing, or one that takes connections and says nothing."""
    if kind == NOTHING:
        yield None
        return
    path = data_dir / "run" / "controller-0.sock"
    path.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(64)
        yield listening
    path.unlink()


@pytest.mark.parametrize("kind", [NOTHING, SILENT])
@pytest.mark.parametrize("role", OTHERS)
def test_a_role_ends_while_it_waits_for_its_first_controller(role: str, kind: str, tmp_path: Path) -> None:
    with controllers(kind, tmp_path) as listening, started(role, tmp_path) as process:
        if listening is None:
            logged(process, "metadata is stale")
        else:
            with listening.accept()[0] as asked:
                assert asked.recv(1)
                ends(process)
            return
        ends(process)


@pytest.fixture(scope="module")
def stopped_cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a cluster that was stopped: its roles know the metadata of before."""
    data_dir = tmp_path_factory.mktemp("stopped")
    with Cluster(data_dir=data_dir):
        return data_dir


@pytest.mark.parametrize("kind", [NOTHING, SILENT])
@pytest.mark.parametrize("role", OTHERS)
def test_a_role_ends_that_serves_what_it_knew_before(role: str, kind: str, stopped_cluster: Path) -> None:
    with controllers(kind, stopped_cluster), started(role, stopped_cluster) as process:
        until(lambda: opened(stopped_cluster, role), f"{role} is open")
        ends(process)


def opened(data_dir: Path, role: str) -> bool:
    described = RunFile.read(data_dir / "run" / f"{role}-0.json")
    return described is not None and described.is_running() and bool(described.addresses)


@pytest.mark.parametrize("silent", ALL)
def test_a_role_ends_while_another_one_stands_still(silent: str, tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path, arguments=("--no-restart",)) as cluster:
        mark = cluster.now
        with cluster.paused(silent):
            for role in (role for role in reversed(ALL) if role != silent):
                cluster.kill(role, number=signal.SIGTERM)
                died = cluster.wait_for("died", role, since=mark, timeout_seconds=DEADLINE_S)
                assert died["status"] == 0


def test_a_controller_ends_while_its_database_refuses(tmp_path: Path) -> None:
    with started("controller", tmp_path, f"metadata.url=postgresql://x@{HOST}:{free_ports(1)}/x") as process:
        logged(process, "the metadata database cannot be used")
        ends(process)


def test_a_controller_ends_while_its_database_says_nothing_to_a_new_connection(tmp_path: Path) -> None:
    with (
        socket.create_server((HOST, 0)) as database,
        started("controller", tmp_path, f"metadata.url=postgresql://x@{HOST}:{database.getsockname()[1]}/x") as process,
        database.accept()[0] as asked,
    ):
        assert asked.recv(1)
        ends(process)


def test_a_controller_ends_while_somebody_has_its_file_locked(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "metadata.db")) as locker:
        locker.execute("PRAGMA journal_mode=WAL")
        locker.execute("BEGIN IMMEDIATE")
        with started("controller", tmp_path) as process:
            logged(process, "the metadata database is locked")
            ends(process)


def test_a_cluster_ends_role_by_role_while_its_database_stands_still(tmp_path: Path) -> None:
    if binary("initdb") is None:
        leave_out("apt-get install postgresql")
    with Postgres() as server, Cluster(data_dir=tmp_path, arguments=("--metadata-url", server.url)) as cluster:
        server.pause()
        ends_in_order(cluster)
        server.resume()


def test_up_ends_role_by_role_while_its_database_was_never_there(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as database:
        url = f"postgresql://x@{HOST}:{database.getsockname()[1]}/x"
        cluster = Cluster(data_dir=tmp_path, arguments=("--metadata-url", url))
        cluster.launch()
        try:
            with database.accept()[0]:
                cluster.wait_for("opened", "gateway")
                ends_in_order(cluster)
        finally:
            cluster.close()


def ends_in_order(cluster: Cluster) -> None:
    """No role is killed: `up` would say that it is overdue."""
    mark = cluster.now
    os.kill(cluster.pid, signal.SIGTERM)
    stopped = [cluster.wait_for("stopped", role, since=mark, timeout_seconds=DEADLINE_S) for role in reversed(ALL)]
    assert [event["status"] for event in stopped] == [0] * len(ALL)


@pytest.mark.parametrize("role", ALL)
def test_a_role_ends_as_soon_as_its_run_file_says_that_it_is_there(role: str, tmp_path: Path) -> None:
    run_file = tmp_path / "run" / f"{role}-0.json"
    with started(role, tmp_path) as process:
        while not run_file.exists():  # without a pause: the loop of the role has not begun then
            assert process.poll() is None
        ends(process)
    assert not run_file.exists()

"""verify-log reads no directory that a broker has open, and names its process; Java's locks count, too."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from uuid import UUID

import pytest
from typer.testing import CliRunner

from tailrace.cli.daily import app
from tailrace.inspect.in_use import InUse, in_use
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.real import RealFilesystem


def opened(path: Path) -> LogDir:
    return LogDir.open(RealFilesystem(), str(path), node_id=0, cluster_id="c", now_ms=0, new_id=lambda: UUID(int=9))


def test_a_directory_that_a_broker_has_open_is_refused_and_read_once_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "broker-0"
    log_dir = opened(path)
    (path / "orders-0").mkdir()
    (path / "orders-0" / f"{0:020}.log").touch()
    for directory in (tmp_path, path, path / "orders-0"):
        done = CliRunner().invoke(app, ["verify-log", str(directory)])
        assert done.exit_code == 2
        assert done.output.startswith(f"{path} is in use by process {os.getpid()}. Stop the broker first")
    log_dir.close()
    assert not list(in_use([tmp_path]))
    assert "is in use" not in CliRunner().invoke(app, ["verify-log", str(path)]).output


def test_a_lock_that_java_took_counts_and_the_file_stays_unlocked(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    log_dir.close()
    with (tmp_path / ".lock").open("r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)  # fcntl(2), as java.nio's FileChannel.tryLock
        assert list(in_use([tmp_path])) == [InUse(tmp_path, os.getpid())]
    assert not list(in_use([tmp_path]))
    opened(tmp_path).close()


def test_a_lock_that_the_kernels_list_does_not_show_is_found_by_trying(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = opened(tmp_path)
    monkeypatch.setattr("tailrace.inspect.in_use.LOCKS", tmp_path / "no-such-file")
    (found,) = in_use([tmp_path])
    assert found == InUse(tmp_path, None) and str(found) == f"{tmp_path} is in use by a broker"
    log_dir.close()


def test_a_partition_is_named_by_the_folder_one_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(tmp_path).close()
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").touch()
    monkeypatch.chdir(tmp_path / "orders-0")
    assert CliRunner().invoke(app, ["verify-log", "."]).exit_code == 0

"""Which cluster a command asks, and how it prints: tables that stay readable whatever a client is called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tailrace.cli.daily.connection import ClusterAddress, cluster_address, table
from tailrace.frames.where import DEFAULT_BOOTSTRAP
from tailrace.runtime.run_files import RunFile, start_ticks


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default directory, with a cluster that runs."""
    monkeypatch.setenv("TAILRACE_DATA_DIR", str(tmp_path / "local"))
    _runs(tmp_path / "local", "127.0.0.1:9192")
    return tmp_path / "local"


def _runs(folder: Path, bootstrap: str) -> None:
    (folder / "run").mkdir(parents=True)
    running = RunFile("up", -1, os.getpid(), start_ticks(os.getpid()), 0, addresses={"bootstrap": bootstrap})
    running.write(folder / "run")


def test_without_a_word_it_is_the_cluster_of_the_default_directory(local: Path) -> None:
    assert cluster_address(None) == ClusterAddress("127.0.0.1:9192", local)


def test_an_address_that_is_named_is_another_cluster_unless_it_is_the_local_one(local: Path) -> None:
    assert cluster_address("far:9092") == ClusterAddress("far:9092")
    assert cluster_address("127.0.0.1:9192") == ClusterAddress("127.0.0.1:9192", local)


def test_a_directory_that_is_named_wins(local: Path, tmp_path: Path) -> None:
    _runs(tmp_path / "other", "127.0.0.1:9292")
    assert cluster_address("far:9092", tmp_path / "other") == ClusterAddress("127.0.0.1:9292", tmp_path / "other")


def test_where_nothing_runs_it_is_kafkas_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_DATA_DIR", str(tmp_path))
    assert cluster_address(None) == ClusterAddress(DEFAULT_BOOTSTRAP, tmp_path)


def test_a_table_is_not_as_wide_as_the_longest_id_that_a_client_may_have(capsys: pytest.CaptureFixture[str]) -> None:
    table(("group", "state"), [("g" * 32_000, "Empty"), ("short", "Stable")])
    head, long, short = capsys.readouterr().out.splitlines()
    assert long == "g" * 255 + "…  Empty"
    assert head.split() == ["group", "state"] and short.split() == ["short", "Stable"]


def test_a_configs_value_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    table(("key", "value"), [("listeners", "v" * 32_000)], most_chars=None)
    assert "v" * 32_000 in capsys.readouterr().out

"""What a role keeps on the disk is its owner's alone, under any umask, also where an earlier version was careless."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.log.filesystem.real import RealFilesystem
from tailrace.metadata.image import MetadataImage
from tailrace.net.metadata import cache as metadata_cache
from tailrace.net.metadata.batches import encode_snapshot
from tailrace.private_files import private_data_dir, private_folder, take_from_others, write_private
from tailrace.runtime.run_files import RunFile
from tailrace_controller.app import only_controller
from tailrace_controller.election.acceptance import Seen
from tailrace_controller.election.seen_file import SeenFile
from tailrace_controller.metadata_log.stored import ReplayPosition
from tailrace_controller.store import Store


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_to_others(root: Path) -> list[str]:
    return [f"{path.relative_to(root)} {mode(path):o}" for path in root.rglob("*") if mode(path) & 0o077]


def test_what_the_parts_of_a_role_write_is_private(tmp_path: Path) -> None:
    filesystem = RealFilesystem()
    filesystem.make_directory(str(tmp_path / "broker-0"))
    filesystem.open(str(tmp_path / "broker-0" / "0.log"), create=True)
    filesystem.lock(str(tmp_path / "broker-0" / ".lock"))
    private_folder(tmp_path / "run")
    RunFile("broker", 0, 1, 1, 1).write(tmp_path / "run")
    metadata_cache.write(tmp_path / "metadata-cache" / "b.image", encode_snapshot(MetadataImage(), 0), 0)
    SeenFile(tmp_path, 0, "token").note("cluster", Seen(1, 1), 0)
    with only_controller(tmp_path, 0, "sqlite:///x"):
        assert open_to_others(tmp_path) == []


def test_the_metadata_database_and_what_sqlite_puts_beside_it_are_private(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    for name in ("metadata.db", "metadata.db-wal"):  # an earlier version, killed
        (tmp_path / name).touch(0o644)
    for _ in range(2):
        store = Store(f"sqlite:///{path}", lambda: 0.0, lambda sentence: None)
        store.follow(ReplayPosition())
        assert (tmp_path / "metadata.db-wal").exists()
        assert open_to_others(tmp_path) == []
        store.close()


def test_a_new_database_is_private(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'metadata.db'}", lambda: 0.0, lambda sentence: None)
    store.follow(ReplayPosition())
    assert {path.name: mode(path) for path in tmp_path.iterdir()} == dict.fromkeys(
        ("metadata.db", "metadata.db-wal", "metadata.db-shm"), 0o600
    )
    store.close()


def test_a_folder_of_ours_is_taken_from_others(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(0o777)
    private_folder(tmp_path / "run")
    assert mode(tmp_path / "run") == 0o700


def test_a_folder_that_all_share_stays_as_it_is(tmp_path: Path) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    private_folder(shared)
    assert mode(shared) == 0o1777


def test_a_data_directory_that_holds_something_already_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "var" / "lib").mkdir(0o755, parents=True)
    (tmp_path / "var").chmod(0o755)
    (tmp_path / "empty").mkdir(0o755)
    for name in ("var", "empty", "new"):
        private_data_dir(tmp_path / name)
    assert [mode(tmp_path / name) for name in ("var", "empty", "new")] == [0o755, 0o700, 0o700]


def test_a_data_directory_in_which_all_may_put_other_files_is_refused(tmp_path: Path) -> None:
    for name, bits in (("all", 0o777), ("group", 0o775), ("sticky", 0o1777)):
        (tmp_path / name / "broker-0").mkdir(parents=True)
        (tmp_path / name).chmod(bits)
    with pytest.raises(PermissionError, match="every user of this machine may write to it"):
        private_data_dir(tmp_path / "all")
    for name in ("group", "sticky"):
        private_data_dir(tmp_path / name)


def test_a_file_that_is_not_there_stays_away(tmp_path: Path) -> None:
    take_from_others(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_private_file_is_replaced_and_nothing_is_left(tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        write_private(tmp_path / "file", content)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert mode(tmp_path / "file") == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

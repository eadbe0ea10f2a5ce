"""verify-log's reading: a sound directory has no finding, a flipped bit is found wherever it matters."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.logs import NOW, append, records_of, with_settings
from support.transactions import data_batch, marker_batch, write
from tailrace.inspect.verify import verify
from tailrace.log import lookup
from tailrace.log.directory.checkpoint_copies import COPY_SUFFIX
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem import checkpoints
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.log.log import Log
from tailrace.records.markers import ABORT

CONFIG = with_settings(segment_bytes=900, index_interval_bytes=200)
TOPIC_ID = UUID(int=7)
FLIPPED = (".log", ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint")


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with two partitions of several segments, shut down cleanly."""
    path = tmp_path_factory.mktemp("sound")
    logs = LogDir.open(RealFilesystem(), str(path), node_id=0, cluster_id="c", now_ms=NOW)
    for partition in range(2):
        log = logs.create("topic", partition, TOPIC_ID, CONFIG)
        for number in range(15):
            fields = {"producer_id": 3, "producer_epoch": 0, "base_sequence": number * 2}
            append(log, b"a" * 40, b"b" * number, leader_epoch=number // 4, timestamp=NOW + number * 5, **fields)
        logs.high_watermarks["topic", partition] = log.log_end_offset
    logs.close(broker_epoch=5)
    return path


def findings(path: Path) -> list[str]:
    return [str(finding) for finding in verify(path, lambda read: None)]


@contextmanager
def changed(path: Path, change: Callable[[bytes], bytes]) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(change(before))
    try:
        yield
    finally:
        path.write_bytes(before)


@contextmanager
def without(path: Path) -> Iterator[None]:
    before = path.read_bytes()
    path.unlink()
    try:
        yield
    finally:
        path.write_bytes(before)


def test_a_sound_directory_has_no_finding_and_stays_as_it_is(valid: Path) -> None:
    before = {path: path.read_bytes() for path in sorted(valid.rglob("*")) if path.is_file()}
    read: list[int] = []
    assert list(verify(valid, read.append)) == []
    assert findings(valid / "topic-1") == []
    assert {path: path.read_bytes() for path in sorted(valid.rglob("*")) if path.is_file()} == before
    assert sum(read) == sum(len(data) for path, data in before.items() if path.suffix == ".log")


def answers(path: Path) -> object:
    """What a broker would answer from this partition: its records, and the offset of every timestamp."""
    log = Log.open(RealFilesystem(), str(path), CONFIG, recovery_point=10**6, clean=True)
    found = [lookup.find(log, NOW + step) for step in range(150)]
    return records_of(log), found, log.epochs.entries()


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_flipped_bit_is_found_or_changes_no_answer(valid: Path, data: st.DataObject) -> None:
    files = [path for path in sorted((valid / "topic-0").iterdir()) if path.name.endswith(FLIPPED)]
    path = data.draw(st.sampled_from([path for path in files if path.stat().st_size]))
    at = data.draw(st.integers(0, path.stat().st_size - 1))
    mask = 1 << data.draw(st.integers(0, 7))
    before = path.read_bytes()
    try:
        path.write_bytes(before[:at] + bytes([before[at] ^ mask]) + before[at + 1 :])
        if not findings(valid):
            copy = valid.parent / "copy"
            shutil.copytree(valid / "topic-0", copy)
            try:
                assert answers(copy) == answers_of_valid(valid)
            finally:
                shutil.rmtree(copy)
    finally:
        path.write_bytes(before)


def answers_of_valid(valid: Path) -> object:
    copy = valid.parent / "right"
    shutil.copytree(valid / "topic-1", copy)
    try:
        return answers(copy)
    finally:
        shutil.rmtree(copy)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("topic-0/00000000000000000000.log", lambda data: data[:-1], "are no whole batch"),
        ("topic-0/00000000000000000000.index", lambda data: data[:-1], "ends within an entry"),
        ("topic-0/00000000000000000000.timeindex", lambda data: data[:12] * 2, "is out of order"),
        ("topic-0/leader-epoch-checkpoint", lambda data: b"0\n1\n0 0\n", "says epoch 0 for offset 8"),
        ("topic-0/leader-epoch-checkpoint", lambda data: data + b"9 99\n", "cannot be read"),
        ("topic-0/partition.metadata", lambda data: b"version: 0\n", "no topic_id"),
        ("topic-0/partition.metadata", lambda data: data.replace(b"AB", b"AC"), "names another"),
        ("recovery-point-offset-checkpoint", lambda data: data.replace(b" 30", b" 29"), "end offset 30"),
        ("replication-offset-checkpoint", lambda data: data.replace(b"0 30", b"0 31"), "holds 0 to 30"),
        ("log-start-offset-checkpoint", lambda data: b"0\n1\nother 0 1\n", "which has no directory here"),
        ("cleaner-offset-checkpoint", lambda data: b"1\n0\n", "cannot be read as a checkpoint"),
        ("recovery-point-offset-checkpoint", lambda data: b"", "it is empty after a clean shutdown"),
        ("meta.properties", lambda data: b"", "cannot be read as meta.properties"),
        (".kafka_cleanshutdown", lambda data: b"{}", "does not name a broker epoch"),
    ],
)  # fmt: skip
def test_what_does_not_agree_is_said_with_what_to_do(
    valid: Path, name: str, change: Callable[[bytes], bytes], said: str
) -> None:
    with changed(valid / name, change):
        found = findings(valid)
    assert [line for line in found if said in line and name in line], found
    assert all(";" in line and "\n" not in line for line in found)


def test_kafkas_checkpoint_of_a_cleaner_that_never_cleaned_is_empty_and_sound(valid: Path) -> None:
    twin = valid / (checkpoints.CLEANER_OFFSET + COPY_SUFFIX)
    with changed(valid / checkpoints.CLEANER_OFFSET, lambda data: b""):
        assert [line for line in findings(valid) if "its copy says" in line]
        with without(twin):  # Kafka writes none
            assert findings(valid) == []


def test_a_compacted_log_may_lack_offsets_and_no_other(valid: Path) -> None:
    first = valid / "topic-0" / "00000000000000000000.log"
    with changed(first, lambda data: b""):
        assert [line for line in findings(valid) if "offsets 0 to 13 are missing" in line]
        cleaner = valid / checkpoints.CLEANER_OFFSET
        with changed(cleaner, lambda data: b"0\n1\ntopic 0 8\n"), without(valid / (cleaner.name + COPY_SUFFIX)):
            assert not [line for line in findings(valid) if "are missing" in line]


def test_an_abort_that_its_index_lacks_is_found(tmp_path: Path) -> None:
    logs = LogDir.open(RealFilesystem(), str(tmp_path), node_id=0, cluster_id="c", now_ms=NOW)
    log = logs.create("topic", 0, TOPIC_ID, CONFIG)
    # Producer 8 wrote nothing before its marker, so no reader need hear of it. 9 ends while an older one is open.
    write(log, marker_batch(8, ABORT), data_batch(7), data_batch(9), marker_batch(9, ABORT), marker_batch(7, ABORT))
    logs.high_watermarks["topic", 0] = log.log_end_offset
    logs.close(broker_epoch=5)
    assert findings(tmp_path) == []
    index = Path(log.directory) / f"{0:020d}.txnindex"
    content = index.read_bytes()
    index.unlink()
    (missing,) = findings(tmp_path)
    assert "lacks the abort of producer 9 at offset 3" in missing and "truncate -s 1" in missing
    index.write_bytes(content[:1])  # what the finding says to do
    logs = LogDir.open(RealFilesystem(), str(tmp_path), node_id=0, cluster_id="c", now_ms=NOW)
    logs.create("topic", 0, TOPIC_ID, CONFIG)
    logs.close(broker_epoch=5)
    assert findings(tmp_path) == [] and index.read_bytes() == content

"""verify-log names the file of every flipped bit, in every file of a directory, but for the few listed here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from support.logs import NOW, append, with_settings
from support.transactions import data_batch, marker_batch, write
from tailrace.inspect.verify import verify
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.checkpoints import LEADER_EPOCH
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.records.markers import ABORT, COMMIT

CONFIG = with_settings(segment_bytes=700, index_interval_bytes=100)
PARTITION = "t-0"
DELETED = f"{PARTITION}/{0:020d}.log"
# No answer of a broker depends on these, or nothing in the directory tells: file, what a flip there makes of it.
SILENT = {
    "meta.properties": r"cluster\.id=[^\n=]+\n|node\.id=\d+\n|directory\.id=",  # whose it is, only the cluster knows
    # The controller compares the epoch with its own, the broker the offset with that of the image it has.
    ".kafka_cleanshutdown": r'"brokerEpoch":-?\d+,"metadataOffset":\d+\}',
    f"{PARTITION}/{LEADER_EPOCH}": r"^0\n2\n0 0\n",  # begins before the log's start, and is taken to begin there
    f"{PARTITION}/partition.metadata": r"topic_id: [\w-]{22}$",  # of one partition; two are compared
}


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two segments with epochs, an aborted transaction and deleted records, shut down cleanly."""
    path = tmp_path_factory.mktemp("flipped")
    logs = LogDir.open(RealFilesystem(), str(path), node_id=0, cluster_id="cluster", now_ms=NOW)
    log = logs.create("t", 0, UUID(int=2**100 + 77), CONFIG)
    write(log, data_batch(7), data_batch(9), marker_batch(9, COMMIT), marker_batch(7, ABORT))
    for number in range(6):
        append(log, b"a" * 20, b"b", leader_epoch=number // 3, timestamp=NOW + number)
    log.advance_log_start_offset(1)
    logs.high_watermarks["t", 0] = 16
    logs.close(broker_epoch=5, metadata_offset=70)
    return path


def flips(valid: bytes) -> Iterator[tuple[str, bytes]]:
    """Each bit of a digit, one of any other byte."""
    for at, byte in enumerate(valid):
        for bit in range(8) if byte in b"0123456789" else (at % 8,):
            flipped = bytearray(valid)
            flipped[at] ^= 1 << bit
            yield f"bit {bit} of byte {at}", bytes(flipped)


def silent(name: str, content: bytes) -> bool:
    """Whether nothing can or need be found."""
    if name == DELETED:  # the epoch of a batch below the log's start, which nobody asks for
        return content[12:16] != bytes(4)
    return name in SILENT and re.search(SILENT[name].encode(), content) is not None


def test_every_flip_is_found_and_its_file_named_or_is_one_that_changes_nothing(valid: Path) -> None:
    assert [str(finding) for finding in verify(valid, lambda read: None)] == []
    missed: list[str] = []
    for path in sorted(path for path in valid.rglob("*") if path.is_file() and path.stat().st_size):
        name, before = str(path.relative_to(valid)), path.read_bytes()
        for what, flipped in flips(before):
            path.write_bytes(flipped)
            findings = list(verify(valid, lambda read: None))
            named = {finding.path.name.removesuffix(".twin") for finding in findings}
            of_it = path.name.removesuffix(".twin").replace(".txnsums", ".txnindex") in named
            of_it = of_it or (path.suffix == ".log" and LEADER_EPOCH in named)  # a batch's epoch is not the file's
            if not (of_it or silent(name, flipped)):
                missed.append(f"{what} of {name}: {findings}")
        path.write_bytes(before)
    assert missed == []

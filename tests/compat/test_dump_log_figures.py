"""dump-log says of a real Apache Kafka's files, figure by figure, what Kafka's own DumpLogSegments says of them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from support import java_tools
from support.java_tools import JavaTools
from support.kafka_files import CODECS, filled
from tailrace.inspect.dump import rows

DUMP = java_tools.TOOLS + "DumpLogSegments"
DECODERS = {
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
}
NONE = -1
FIGURES = re.compile(r"(\| |base)?offset|timestamp|producerId|version", re.IGNORECASE)
CONTROL = re.compile(r" (LeaderChange:|SnapshotHeader|SnapshotFooter|KRaftVersion|KRaftVoters) .*")
DECODED = re.compile(CONTROL.pattern + r"| (key|payload): .*")
Row = dict[str, Any]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of a stopped Kafka, its deleted segments as segments of folders of their own."""
    if needed := java_tools.missing():
        pytest.skip(needed)
    path = filled(tmp_path_factory.mktemp("figures") / "kafka")
    for gone in path.glob("*/*.deleted"):
        folder = gone.parent.with_name(f"gone-{gone.parent.name}")
        folder.mkdir(exist_ok=True)
        shutil.move(gone, folder / gone.stem)
    return path


def size(count: int | None) -> int:
    return NONE if count is None else count


def as_kafka_says(row: Row, batch: Row) -> str:
    """A row as a line of DumpLogSegments; of decoded records without what was decoded."""
    match row["row"]:
        case "batch":
            return batch_line(row)
        case "record":
            return record_line(row, batch)
        case "aborted":
            figures = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
            return "version: 0 " + named(row, figures)
        case "producer":
            open_at = row["current_txn_first_offset"]
            figures = ("first_sequence", "last_sequence", "last_offset", "offset_delta")
            return (
                f"{named(row, ('producer_id', 'producer_epoch', 'coordinator_epoch'))} currentTxnFirstOffset: "
                f"{optional(None if open_at < 0 else open_at)} {named(row, ('last_timestamp',))} {named(row, figures)} "
                f"timestamp: {row['last_timestamp']}"
            )
        case "entry":
            return named(row, tuple(key for key in row if key != "row"))
    raise AssertionError(row)


def batch_line(row: Row) -> str:
    return (
        f"{named(row, ('base_offset', 'last_offset'))} count: {row['records']} "
        f"{named(row, ('base_sequence', 'last_sequence', 'producer_id', 'producer_epoch'))} "
        f"partitionLeaderEpoch: {row['leader_epoch']} isTransactional: {flag(row['transactional'])} "
        f"isControl: {flag(row['control'])} deleteHorizonMs: {optional(row['delete_horizon_timestamp'])} "
        f"position: {row['position']} {row['timestamp_type']}: {row['max_timestamp']} size: {row['bytes']} magic: 2 "
        f"compresscodec: {row['compression']} crc: {row['crc']} isvalid: {flag(row['valid'])}"
    )


def record_line(row: Row, batch: Row) -> str:
    base = batch["base_sequence"]
    line = (
        f"| offset: {row['offset']} {batch['timestamp_type']}: {row['timestamp']} keySize: {size(row['key_bytes'])} "
        f"valueSize: {size(row['value_bytes'])} sequence: "
        f"{NONE if base < 0 else base + row['offset'] - batch['base_offset']} "
        f"headerKeys: [{','.join(key for key, _ in row.get('headers', ()))}]"
    )
    if "coordinator_epoch" in row:
        line += f" endTxnMarker: {row['marker'].upper()} coordinatorEpoch: {row['coordinator_epoch']}"
    for name, key in (("key", "key"), ("payload", "value")):
        if row.get(key) is not None:
            line += f" {name}: {row[key]}"
    return line


def named(row: Row, keys: tuple[str, ...]) -> str:
    return " ".join(f"{re.sub('_([a-z])', lambda found: found[1].upper(), key)}: {row[key]}" for key in keys)


def optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def flag(value: bool) -> str:
    return str(value).lower()


def ours(path: Path) -> list[str]:
    """What dump-log says, in Kafka's words."""
    batch: Row = {}
    lines = []
    for row in rows(path, deep=True):
        batch = row if row["row"] == "batch" else batch
        if row["row"] != "file":
            lines.append(as_kafka_says(row, batch))
    return lines


def kafkas(jvm: JavaTools, path: Path) -> list[str]:
    """What DumpLogSegments says, without its headings and what it decoded."""
    decoder = DECODERS.get(path.parent.name.rpartition("-")[0])
    if path.name == "bootstrap.checkpoint":
        decoder = DECODERS["__cluster_metadata"]
    shown = jvm.run(DUMP, "--files", str(path), decoder or "--print-data-log")
    assert shown.code == 0 and "Mismatches" not in shown.err, shown.err
    lines = [line for line in shown.out.split("\n") if FIGURES.match(line)]
    return [(DECODED if decoder else CONTROL).sub("", line) for line in lines]


KINDS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")


@pytest.mark.parametrize("suffix", KINDS)
def test_every_figure_of_every_file_is_kafkas(data: Path, jvm: JavaTools, suffix: str) -> None:
    paths = sorted(data.rglob(f"*{suffix}"))
    assert paths
    said = {path.relative_to(data): kafkas(jvm, path) for path in paths}
    assert any(said.values())
    for path, lines in said.items():
        assert ours(data / path) == lines, path


def test_the_files_hold_one_of_everything(data: Path) -> None:
    """So that the comparison is of more than plain records."""
    found = [row for path in data.rglob("*.log") for row in rows(path, deep=True)]
    batches = [row for row in found if row["row"] == "batch"]
    assert {row["compression"] for row in batches} == {codec or "none" for codec in CODECS}
    assert {row["timestamp_type"] for row in batches} == {"CreateTime", "LogAppendTime"}
    assert any(row["delete_horizon_timestamp"] for row in batches)
    assert {row["marker"] for row in found if "marker" in row} >= {"abort", "commit", "leader change"}

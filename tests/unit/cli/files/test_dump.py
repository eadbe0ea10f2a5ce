"""`tailrace dump-log` and `verify-log` as commands: lines, JSON, exit codes."""

from __future__ import annotations

import json
import tracemalloc
from io import StringIO
from pathlib import Path
from uuid import UUID

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from support.batches import Batch, record
from support.logs import NOW, SMALL, append
from support.transactions import data_batch, marker_batch, write
from tailrace.cli.daily import app
from tailrace.cli.files.verify import progress
from tailrace.coordination.group_records import GroupMetadata, MemberMetadata, OffsetCommitted
from tailrace.coordination.group_records import encode as encode_group
from tailrace.inspect import dump
from tailrace.log.config import LogConfig
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.log.segment.transactions import AbortedTransaction, encode
from tailrace.records.batch import read_header
from tailrace.records.compression import Codec
from tailrace.records.markers import ABORT
from tailrace.records.record import Record, build, iterate, rebuild, with_delete_horizon


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    logs = LogDir.open(RealFilesystem(), str(tmp_path / "broker-0"), node_id=0, cluster_id="c", now_ms=NOW)
    log = logs.create("topic", 0, UUID(int=9), SMALL)
    for number in range(9):
        append(
            log, b"v%d" % number, b"\xff", codec=Codec.ZSTD, producer_id=4, producer_epoch=1, base_sequence=number * 2
        )
    offsets = logs.create("__consumer_offsets", 0, UUID(int=10), SMALL)
    key, value = encode_group(OffsetCommitted("readers", "topic", 0, 7))
    offsets.append([build([Record(timestamp=NOW, key=key, value=value)])], 0, NOW)
    logs.close(broker_epoch=5, metadata_offset=70)
    return tmp_path / "broker-0"


def rows(*arguments: object) -> list[dict[str, object]]:
    done = run("dump-log", "--json", *arguments)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.output.splitlines()]


def test_a_segment_is_shown_by_batches_and_with_deep_by_records(directory: Path) -> None:
    segment = directory / "topic-0" / "00000000000000000000.log"
    batches = [row for row in rows(segment) if row["row"] == "batch"]
    assert [row["base_offset"] for row in batches][:3] == [0, 2, 4]
    assert batches[0]["compression"] == "zstd" and batches[0]["producer_id"] == 4 and batches[0]["valid"] is True
    records = [row for row in rows("--deep", segment) if row["row"] == "record"]
    assert [(row["offset"], row["value"]) for row in records][:2] == [(0, "v0"), (1, "0xff")]
    assert "producer 4/1 from sequence 0" in run("dump-log", segment).output


def test_of_very_many_headers_the_first_are_shown_and_nothing_is_made_of_the_others(tmp_path: Path) -> None:
    segment, headers = tmp_path / "00000000000000000000.log", 300_000
    crafted = Batch(records=[record(0, b"v", headers=[("", b"")] * headers), record(1, b"w", headers=[("h", b"")])])
    segment.write_bytes(crafted.encode())
    tracemalloc.start()
    try:
        first, second = [row for row in dump.rows(segment, deep=True) if row["row"] == "record"]
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (first["headers"], first["headers_left_out"]) == ([["", ""]] * 1000, headers - 1000)
    assert second["headers"] == [["h", ""]] and "headers_left_out" not in second
    assert most_bytes < 5_000_000
    assert "and 299000 more" in run("dump-log", "--deep", segment).output


def test_figures_that_kafkas_tool_prints_are_there_and_in_words_where_they_tell_something(tmp_path: Path) -> None:
    logs = LogDir.open(RealFilesystem(), str(tmp_path), node_id=0, cluster_id="c", now_ms=NOW)
    log = logs.create("topic", 0, UUID(int=9), SMALL)
    write(log, data_batch(4, b"one", b"two"), marker_batch(4, ABORT, coordinator_epoch=3))
    logs.close()
    segment = Path(log.directory) / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes() + tombstone_with_horizon(3))
    _, data, first, _, marker, ended, horizon = rows("--deep", segment)[:7]
    assert (data["base_sequence"], data["last_sequence"], data["delete_horizon_timestamp"]) == (0, 1, None)
    assert (first["key_bytes"], first["value_bytes"]) == (1, 3)
    assert (marker["last_sequence"], ended["marker"], ended["coordinator_epoch"]) == (-1, "abort", 3)
    assert horizon["delete_horizon_timestamp"] == NOW + 60_000
    shown = run("dump-log", segment).output
    assert "abort of coordinator epoch 3" in shown and "delete horizon 1970-01-01T00:17:40.000Z" in shown


def test_messages_from_before_kafka_0_11_are_named_as_such(tmp_path: Path) -> None:
    segment = tmp_path / "old-0" / f"{0:020}.log"
    segment.parent.mkdir()
    message = bytes.fromhex("8ee3a92401000000018bcfe56800ffffffff0000000568656c6c6f")  # a CRC, magic 1, "hello"
    segment.write_bytes(b"".join(n.to_bytes(8, "big") + len(message).to_bytes(4, "big") + message for n in range(3)))
    done = run("dump-log", segment)
    assert done.exit_code == 1 and "magic 2 are read, as Kafka writes them since 0.11; this is magic 1" in done.output


def tombstone_with_horizon(offset: int) -> bytes:
    """A batch as the cleaner leaves it (KIP-534)."""
    batch = build([Record(timestamp=NOW, key=b"gone")], base_offset=offset)
    return bytes(rebuild(with_delete_horizon(read_header(batch), NOW + 60_000), list(iterate(batch))))


def test_every_kind_of_file_is_shown(directory: Path) -> None:
    (directory / "topic-0" / "00000000000000000000.txnindex").write_bytes(encode([AbortedTransaction(4, 2, 9, 10)]))
    files = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.name != ".lock"]
    found = {str(path.name): rows(path) for path in files}
    assert found["00000000000000000000.txnindex"][1]["first_offset"] == 2
    assert found["00000000000000000018.snapshot"][1]["last_sequence"] == 17
    offset = {"row": "offset", "topic": "topic", "partition": 0, "offset": 18}
    assert offset in found["recovery-point-offset-checkpoint"]
    assert found[".kafka_cleanshutdown"][1] == {"row": "clean shutdown", "broker_epoch": 5, "metadata_offset": 70}
    assert found["leader-epoch-checkpoint"][1] == {"row": "epoch", "leader_epoch": 0, "start_offset": 0}
    assert {"row": "property", "key": "node.id", "value": "0"} in found["meta.properties"]


def test_committed_offsets_are_decoded(directory: Path) -> None:
    (record,) = [
        row
        for row in rows("--deep", directory / "__consumer_offsets-0" / "00000000000000000000.log")
        if row["row"] == "record"
    ]
    decoded = record["decoded"]
    assert isinstance(decoded, dict)
    assert (decoded["type"], decoded["group_id"], decoded["offset"]) == ("OffsetCommitted", "readers", 7)


def test_members_of_a_group_are_shown_by_field(tmp_path: Path) -> None:
    member = MemberMetadata("m-1", None, "app", "/127.0.0.1", 300_000, 45_000, b"\0\3", b"")
    key, value = encode_group(GroupMetadata("readers", "consumer", 5, "range", "m-1", NOW, (member,)))
    logs = LogDir.open(RealFilesystem(), str(tmp_path), node_id=0, cluster_id="c", now_ms=NOW)
    log = logs.create("__consumer_offsets", 0, UUID(int=1), LogConfig())
    log.append([build([Record(timestamp=NOW, key=key, value=value)])], 0, NOW)
    logs.close()
    found = rows(Path(log.directory) / f"{0:020}.log", "--deep")
    (decoded,) = [row["decoded"] for row in found if row["row"] == "record"]
    assert isinstance(decoded, dict)
    (shown,) = decoded["members"]
    assert (shown["member_id"], shown["session_timeout_ms"], shown["subscription"]) == ("m-1", 45_000, "0003")


def test_what_kafka_writes_of_consumer_groups_has_names_and_removals_are_told(tmp_path: Path) -> None:
    logs = LogDir.open(RealFilesystem(), str(tmp_path), node_id=0, cluster_id="c", now_ms=NOW)
    log = logs.create("__consumer_offsets", 0, UUID(int=1), LogConfig())
    value = b"\0\0\0\0\0\7\0"
    keys = (b"\0\3\0\1g", b"\0\5\0\1g\0\2m1", b"\0\x10\0\1g\0\2a*")
    log.append([build([Record(timestamp=NOW, key=key, value=value if key[1] == 3 else None) for key in keys])], 0, NOW)
    logs.close()
    decoded = [row["decoded"] for row in rows(Path(log.directory) / f"{0:020}.log", "--deep") if row["row"] == "record"]
    assert decoded == [
        {"type": "ConsumerGroupMetadata", "group_id": "g", "epoch": 7, "metadata_hash": 0},
        {"type": "ConsumerGroupMemberMetadata", "group_id": "g", "member_id": "m1", "removed": True},
        {"type": "ConsumerGroupRegularExpression", "group_id": "g", "regular_expression": "a*", "removed": True},
    ]


def test_transactions_of_kafkas_coordinator_are_shown_with_their_states(tmp_path: Path) -> None:
    key = b"\0\0\0\x08ledger-0"  # as Apache Kafka 4.3.1 wrote them
    prepared = (
        "0001000000000000000100000000ea600302076c6564676572020000000000000001a2047fd1f8000001a2047fd1cc01000800000000"
    )
    values = [bytes.fromhex(prepared + "00000001"), None, b"\0\1short"]
    logs = LogDir.open(RealFilesystem(), str(tmp_path), node_id=0, cluster_id="c", now_ms=NOW)
    log = logs.create("__transaction_state", 0, UUID(int=1), LogConfig())
    log.append([build([Record(timestamp=NOW, key=key, value=value) for value in values])], 0, NOW)
    logs.close()
    decoded = [row["decoded"] for row in rows(Path(log.directory) / f"{0:020}.log", "--deep") if row["row"] == "record"]
    assert decoded == [
        {
            "type": "TransactionState",
            "transactional_id": "ledger-0",
            "producer_id": 1,
            "producer_epoch": 0,
            "timeout_ms": 60_000,
            "state": "PrepareAbort",
            "partitions": [["ledger", [0]]],
            "last_update_timestamp_ms": 1795371815416,
            "start_timestamp_ms": 1795371815372,
            "previous_producer_id": 1,
            "next_producer_id": -1,
            "client_transaction_version": 0,
            "next_producer_epoch": -1,
            "value_version": 1,
        },
        {"type": "TransactionStateRemoved", "transactional_id": "ledger-0"},
        {"type": "damaged", "error": "8 bytes wanted at 2 of 7"},
    ]


def test_metadata_that_we_have_no_place_for_has_kafkas_names(tmp_path: Path) -> None:
    logs = LogDir.open(RealFilesystem(), str(tmp_path), node_id=0, cluster_id="c", now_ms=NOW)
    log = logs.create("__cluster_metadata", 0, UUID(int=1), LogConfig())
    values = [bytes.fromhex(text) for text in ("01170001001212426f", "01180000", "011b00", "017f00", "02", "")]
    log.append([build([Record(timestamp=NOW, value=value) for value in values])], 0, NOW)
    logs.close()
    read = rows(Path(log.directory) / f"{0:020}.log", "--deep")
    decoded = [row["decoded"] for row in read if row["row"] == "record"]
    assert [row["type"] for row in decoded if isinstance(row, dict)] == [
        "BeginTransactionRecord",
        "EndTransactionRecord",
        "RegisterControllerRecord",
        *["unknown"] * 3,
    ]


def test_damage_is_shown_and_told_by_the_exit_code(directory: Path) -> None:
    segment = directory / "topic-0" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data)
    shown = run("dump-log", segment)
    assert shown.exit_code == 1
    assert "DAMAGED at 0: the record batch has a wrong CRC-32C" in shown.output
    checked = run("verify-log", directory)
    assert checked.exit_code == 1
    (line,) = [line for line in checked.stdout.splitlines() if "CRC" in line]
    assert line.startswith(f"{segment}: ") and "move the partition's directory away" in line


def test_a_sound_data_directory_verifies(directory: Path) -> None:
    done = run("verify-log", directory.parent)
    assert (done.exit_code, done.stdout) == (0, "")


@pytest.mark.parametrize("width", [120, 80, 50, 40, 20])
def test_the_bar_is_one_line_however_narrow_the_terminal_is(width: int) -> None:
    bar = progress("Taking over")
    bar.update(bar.add_task("", total=900 * 2**30), completed=115 * 2**30)
    console = Console(file=StringIO(), width=width)
    assert len(console.render_lines(bar.get_renderable())) == 1


@pytest.mark.parametrize("command", ["dump-log", "verify-log"])
def test_what_is_no_log_is_refused_in_a_sentence(command: str, tmp_path: Path) -> None:
    stranger = tmp_path / "notes.txt"
    stranger.write_text("hello")
    done = run(command, stranger)
    assert done.exit_code == 2
    assert len(done.output.splitlines()) == 1 and "notes.txt" in done.output


def test_a_directory_without_anything_of_a_log_directory_is_refused_and_not_verified(tmp_path: Path) -> None:
    (tmp_path / "dbus-1").mkdir()  # as /etc has one: named like a partition
    done = run("verify-log", tmp_path)
    assert done.exit_code == 2
    said = f"{tmp_path} is no log directory: no meta.properties, no checkpoint and no partition is there."
    assert done.output.splitlines() == [said]


def test_a_log_directory_that_lost_its_properties_is_verified_all_the_same(directory: Path) -> None:
    (directory / "meta.properties").unlink()
    done = run("verify-log", directory)
    assert done.exit_code == 1 and "meta.properties: cannot be read" in done.stdout
    for checkpoint in directory.glob("*checkpoint*"):
        checkpoint.unlink()
    (directory / ".kafka_cleanshutdown").unlink()
    done = run("verify-log", directory)
    assert done.exit_code == 1 and len(done.stdout.splitlines()) == 1


def test_a_partition_that_cannot_be_read_is_a_finding_and_the_others_are_read(directory: Path) -> None:
    (segment,) = (directory / "__consumer_offsets-0").glob("*.log")
    segment.unlink()
    segment.mkdir()
    damaged = sorted((directory / "topic-0").glob("*.log"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    done = run("verify-log", directory)
    assert done.exit_code == 1, done.output
    found = done.stdout.splitlines()
    assert f"{segment}: cannot be read: Is a directory; see what the system's log says of the disk" in found
    assert any(line.startswith(f"{damaged}: ") for line in found)
    assert not any("has no directory here" in line for line in found)
    alone = run("verify-log", segment.parent)
    assert alone.exit_code == 1 and len(alone.stdout.splitlines()) == 1

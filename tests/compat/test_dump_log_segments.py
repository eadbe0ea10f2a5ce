"""Apache Kafka's own DumpLogSegments reads every file of ours without complaint."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from support import kafka_peer
from support.stage import create_topic, wait_for_topic
from support.targets import Target
from support.transactional import Transactional
from support.transactions import data_batch, marker_batch, write
from tailrace.coordination.group_records import (
    GroupMetadata,
    GroupRecord,
    GroupRemoved,
    MemberMetadata,
    OffsetCommitted,
    OffsetRemoved,
)
from tailrace.coordination.group_records import encode as encode_group
from tailrace.coordination.transaction_records import (
    STATES,
    Status,
    TransactionRecord,
    TransactionState,
    TransactionStateRemoved,
)
from tailrace.coordination.transaction_records import encode as encode_transaction
from tailrace.errors import ErrorCode
from tailrace.kafka.topics import TRANSACTION_STATE_TOPIC
from tailrace.log.compaction import plan
from tailrace.log.config import LogConfig
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.pending_deletions import remove_paths
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.log.log import Log
from tailrace.log.segment.transactions import AbortedTransaction, encode
from tailrace.records.compression import Codec
from tailrace.records.markers import ABORT
from tailrace.records.record import Record, build
from tailrace.state.partitioner import partition_for
from tailrace_broker.partitions.shard_barriers import barrier

NOW = 1_700_000_000_000
NOT_SHOWN = (".timeindex", ".txnsums")  # has a test of its own; ours, which Kafka passes over
CONFIG = LogConfig(
    segment_bytes=20_000, index_interval_bytes=500, cleanup_policy="compact", min_cleanable_dirty_ratio=0.1
)


def libs() -> str:
    folder = os.environ.get("KAFKA_LIBS", "")
    if not list(Path(folder).glob("kafka-tools-*.jar")) if folder else True:
        folder = str(kafka_peer.CACHE / "libs")
    if not list(Path(folder).glob("kafka-tools-*.jar")):
        pytest.skip("no Apache Kafka jars: KAFKA_LIBS=folder of them")
    if shutil.which("java") is None:
        pytest.skip("no Java: apt-get install -y openjdk-17-jdk-headless")
    return folder


def dump(*options: str) -> str:
    command = ["java", "-Xmx256m", "-cp", f"{libs()}/*", "org.apache.kafka.tools.DumpLogSegments", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def transactions_in(log: Path) -> list[tuple[str, str | None, Any]]:
    """Transactional id, version and fields of each record, as Kafka's decoder prints them; None for a tombstone."""
    shown = dump("--transaction-log-decoder", "--print-data-log", "--files", str(log))
    assert "isvalid: false" not in shown and "xception" not in shown
    found = []
    for key, payload in re.findall(r" key: (\{.*\}) payload: (.*)$", shown, re.MULTILINE):
        value = {"version": None, "data": None} if payload == "<DELETE>" else json.loads(payload)
        found.append((json.loads(key)["data"]["transactionalId"], value["version"], value["data"]))
    return found


def shard(target: Target, transactional_id: str) -> int:
    """The partition of `__transaction_state` that holds the id."""
    return partition_for(transactional_id, len(wait_for_topic(target, TRANSACTION_STATE_TOPIC).leaders))


def fill(log: Log, numbers: range) -> None:
    """Batches with every codec, of an idempotent producer, with headers and out-of-order times."""
    for number in numbers:
        records = [
            Record(
                timestamp=NOW + (number * 37 + index * 11) % 900,
                key=b"k%d" % (number % 70),
                value=b"v" * 60,
                headers=(("h", b"x"),),
            )
            for index in range(5)
        ]
        codec, sequence = list(Codec)[number % 5], number * 5
        batch = build(records, compression=codec, producer_id=4, producer_epoch=0, base_sequence=sequence)
        (answer,) = log.append([batch], number // 50, NOW)
        assert answer.error_code == 0


def filled_partition(path: Path) -> Path:
    """Several segments, the older ones compacted, shut down cleanly."""
    logs = LogDir.open(RealFilesystem(), str(path), node_id=0, cluster_id="dump", now_ms=NOW)
    log = logs.create("topic", 0, uuid4(), CONFIG)
    fill(log, range(120))
    compaction = plan.begin(log, NOW, log.log_end_offset)
    assert compaction is not None
    compaction.run()
    plan.finish(log, compaction)
    fill(log, range(120, 250))
    directory = Path(log.directory)
    remove_paths(logs.guard, logs.pending_deletions.due(NOW + CONFIG.file_delete_delay_ms))
    logs.close(broker_epoch=3)
    return directory


def test_kafka_reads_our_segments_indexes_and_snapshots(tmp_path: Path) -> None:
    libs()
    directory = filled_partition(tmp_path)
    files = {
        suffix: sorted(map(str, directory.glob(f"*{suffix}")))
        for suffix in (".log", ".index", ".timeindex", ".snapshot")
    }
    assert len(files[".log"]) > 2 and len(files[".index"]) == len(files[".timeindex"]) == len(files[".log"])
    records = dump("--print-data-log", "--files", ",".join(files[".log"]))
    assert "offset: 1249 " in records and "isvalid: false" not in records and "Found invalid" not in records
    assert records.count("isvalid: true") > 50
    indexes = dump("--index-sanity-check", "--files", ",".join(files[".index"] + files[".timeindex"]))
    assert indexes.count("passed sanity check.") == 2 * len(files[".log"])
    mismatches = dump("--verify-index-only", "--files", ",".join(files[".index"] + files[".timeindex"]))
    assert "Mismatches" not in mismatches and "out of order" not in mismatches and "not found" not in mismatches
    snapshot = dump("--files", files[".snapshot"][-1])
    assert "producerId: 4 producerEpoch: 0" in snapshot and "lastSequence: 1249" in snapshot


def test_kafka_reads_an_index_of_aborted_transactions(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.txnindex"
    path.write_bytes(encode([AbortedTransaction(4, 2, 9, 10), AbortedTransaction(5, 8, 19, 12)]))
    shown = [line for line in dump("--files", str(path)).splitlines() if line.startswith("version: 0")]
    assert shown == [
        "version: 0 producerId: 4 firstOffset: 2 lastOffset: 9 lastStableOffset: 10",
        "version: 0 producerId: 5 firstOffset: 8 lastOffset: 19 lastStableOffset: 12",
    ]


def test_kafka_reads_a_log_with_transactions(tmp_path: Path) -> None:
    logs = LogDir.open(RealFilesystem(), str(tmp_path), node_id=0, cluster_id="dump", now_ms=NOW)
    log = logs.create("topic", 0, uuid4(), LogConfig())
    write(log, data_batch(4), data_batch(5), marker_batch(4, ABORT), data_batch(6), marker_batch(5, ABORT))
    logs.close(broker_epoch=3)
    files = [str(path) for path in sorted(Path(log.directory).glob("0*")) if path.suffix not in NOT_SHOWN]
    assert [Path(name).suffix for name in files] == [".index", ".log", ".txnindex", ".snapshot"]
    shown = dump("--index-sanity-check", "--print-data-log", "--files", ",".join(files))
    assert "version: 0 producerId: 4 firstOffset: 0 lastOffset: 2 lastStableOffset: 1" in shown
    assert "version: 0 producerId: 5 firstOffset: 1 lastOffset: 4 lastStableOffset: 3" in shown
    assert shown.count("endTxnMarker: ABORT") == 2 and "isvalid: false" not in shown
    assert "producerId: 6 producerEpoch: 0" in shown and "currentTxnFirstOffset: OptionalLong[3]" in shown


def test_kafkas_offsets_decoder_reads_what_coordinators_write(tmp_path: Path) -> None:
    member = MemberMetadata("m-1", None, "app", "/127.0.0.1", 300_000, 45_000, b"\0\3\0\0\0\0\0\0\0\0", b"")
    written: list[GroupRecord] = [
        OffsetCommitted("readers", "topic", 3, 77, 2, "half way", NOW, topic_id=UUID(int=9)),
        OffsetCommitted("readers", "topic", 4, 78, 2, "", NOW, expire_timestamp_ms=NOW + 5),
        OffsetRemoved("readers", "topic", 3),
        GroupMetadata("readers", "consumer", 5, "range", "m-1", NOW, (member,)),
        GroupRemoved("readers"),
    ]
    logs = LogDir.open(RealFilesystem(), str(tmp_path), node_id=0, cluster_id="dump", now_ms=NOW)
    log = logs.create("__consumer_offsets", 0, uuid4(), LogConfig())
    log.append([barrier(1, 0, NOW)], 0, NOW, from_client=False)
    records = [Record(timestamp=NOW, key=key, value=value) for key, value in map(encode_group, written)]
    log.append([build(records)], 0, NOW, from_client=False)
    logs.close(broker_epoch=3)
    path = Path(log.directory) / "00000000000000000000.log"
    shown = dump("--offsets-decoder", "--print-data-log", "--files", str(path))
    assert '"group":"readers","topic":"topic","partition":3' in shown
    assert '"offset":77,"leaderEpoch":2,"metadata":"half way"' in shown
    assert '"protocolType":"consumer","generation":5' in shown and '"memberId":"m-1"' in shown
    assert "isvalid: false" not in shown and "xception" not in shown
    assert shown.count("isvalid: true") >= 2


def test_kafkas_transaction_decoder_reads_what_coordinators_write(tmp_path: Path) -> None:
    """Every state, in the version before KIP-890 and in that of it; a barrier of ours; an id that expired."""
    begun = TransactionState("ledger", 7, 2, 60_000, Status.ONGOING, (("topic", (0, 3)),), NOW + 1, NOW)
    of_version_2 = TransactionState(
        "billing", 8, 3, 9_000, Status.PREPARE_COMMIT, (("topic", (1,)),), NOW, NOW, 6, 9, 2, 4
    )
    written: list[TransactionRecord] = [
        *(replace(begun, state=state, value_version=version) for state in STATES for version in (0, 1)),
        of_version_2,
        TransactionStateRemoved("ledger"),
    ]
    logs = LogDir.open(RealFilesystem(), str(tmp_path), node_id=0, cluster_id="dump", now_ms=NOW)
    log = logs.create("__transaction_state", 0, uuid4(), LogConfig())
    log.append([barrier(1, 0, NOW)], 0, NOW, from_client=False)
    records = [Record(timestamp=NOW, key=key, value=value) for key, value in map(encode_transaction, written)]
    log.append([build(records)], 0, NOW, from_client=False)
    logs.close(broker_epoch=3)
    rows = transactions_in(Path(log.directory) / "00000000000000000000.log")
    common = {
        "producerId": 7,
        "producerEpoch": 2,
        "transactionTimeoutMs": 60_000,
        "transactionPartitions": [{"topic": "topic", "partitionIds": [0, 3]}],
        "transactionLastUpdateTimestampMs": NOW + 1,
        "transactionStartTimestampMs": NOW,
    }
    assert rows == [
        *(
            ("ledger", version, {**common, "transactionStatus": str(status)})
            for status in STATES
            for version in ("0", "1")
        ),
        (
            "billing",
            "1",
            {
                "producerId": 8,
                "producerEpoch": 3,
                "transactionTimeoutMs": 9_000,
                "transactionStatus": "PrepareCommit",
                "transactionPartitions": [{"topic": "topic", "partitionIds": [1]}],
                "transactionLastUpdateTimestampMs": NOW,
                "transactionStartTimestampMs": NOW,
                "previousProducerId": 6,
                "nextProducerId": 9,
                "clientTransactionVersion": 2,
                "nextProducerEpoch": 4,
            },
        ),
        ("ledger", None, None),
    ]


@pytest.mark.by("java")
@pytest.mark.capability("transactions of the Java client, and kafka-transactions.sh")
@pytest.mark.parametrize(("version", "client_version"), [(3, 0), (5, 2)], ids=["first protocol", "second protocol"])
def test_a_running_coordinators_log_tells_the_story_of_a_transaction(
    target: Target, version: int, client_version: int
) -> None:
    topic, producer = create_topic(target), Transactional(target)
    assert producer.init(timeout_ms=7_000) is ErrorCode.NONE
    producer_id = producer.producer_id
    assert producer.begun(topic, 0) == [ErrorCode.NONE]
    assert producer.produce(topic, "v") is ErrorCode.NONE
    assert producer.ended(True, version=version) is ErrorCode.NONE
    producer.wait_for("CompleteCommit")
    producer.close()
    replica = next(target.folder.glob(f"**/__transaction_state-{shard(target, producer.name)}/*0.log"))
    told = [data for name, _, data in transactions_in(replica) if name == producer.name and data]
    assert {(data["producerId"], data["transactionTimeoutMs"]) for data in told} == {(producer_id, 7_000)}
    empty, ongoing, prepared, complete = told
    assert [data["transactionStatus"] for data in told] == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    partitions = [{"topic": topic.name, "partitionIds": [0]}]
    told_partitions = [data["transactionPartitions"] for data in (empty, ongoing, prepared, complete)]
    assert told_partitions == [None, partitions, partitions, []]
    assert [data.get("clientTransactionVersion") for data in (prepared, complete)] == [client_version or None] * 2

"""A stopped Apache Kafka whose files hold one of everything that a broker writes, to compare readers of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from support.clients import Record, connect
from support.clients import transactions as producers
from support.kafka_peer import KafkaPeer
from support.waiting import until
from tailrace.log.filesystem import checkpoints

CODECS = (None, "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "50",
    "log.index.interval.bytes": "300",
    "metadata.log.max.record.bytes.between.snapshots": "600",
}
# A batch that comes later than segment.ms after the segment's first closes the segment, which is then cleaned.
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.0"}


def filled(folder: Path) -> Path:
    """Starts a Kafka, fills and stops it; its log directory."""
    peer = KafkaPeer(folder, SETTINGS)
    peer.start()
    try:
        _fill(peer)
    finally:
        peer.stop()
    return folder / "data"


def _fill(peer: KafkaPeer) -> None:
    client = connect("kafka_python", peer.bootstrap)
    try:
        client.create_topic("plain", configs={"segment.bytes": "1048576"})
        for codec in CODECS:
            client.produce("plain", [Record(b"v" * 200, b"k", (("h", b"1"), ("i", b""))), Record(None, b"gone")] * 20)
            client.produce("plain", [Record(b"", None)] * 30, compression=codec, idempotent=True)
        client.create_topic("stamped", configs={"message.timestamp.type": "LogAppendTime"})
        client.produce("stamped", [Record(b"s", timestamp_ms=5)] * 3, compression="gzip")
        client.produce("stamped", [Record(b"s", timestamp_ms=5)] * 3)
        client.create_topic("compacted", configs=COMPACTED)
        _compact(client.produce, peer.folder / "data")
        for topic in ("ledger", "hanging"):
            client.create_topic(topic)
        producers.write_both_ways(peer.bootstrap, "ledger")
        producers.leave_open(peer.bootstrap, "hanging")
        client.commit("readers", "plain", 12, "half way")
        client.join("readers", "plain").leave()
        client.delete_records("plain", 3)
    finally:
        client.close()


def _compact(produce: Callable[..., object], data: Path) -> None:
    """Batches that lose records, and one that keeps a tombstone and so gets a horizon."""
    now = int(time.time() * 1000)
    for turn in range(8):
        rows = [Record(b"v%d" % turn, b"k%d" % number, timestamp_ms=now + turn * 10) for number in range(turn % 3 + 2)]
        produce("compacted", [*rows, Record(None, b"gone%d" % turn, timestamp_ms=now + turn * 10)])

    def cleaned() -> bool:
        name = data / checkpoints.CLEANER_OFFSET
        return name.exists() and checkpoints.parse_offsets(name.read_bytes() or b"0\n0\n").get(("compacted", 0), 0) > 0

    until(cleaned, "the cleaner")

"""A stopped Apache Kafka's log directory for tests without a Kafka: real logs, and a metadata log beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from uuid import UUID

from support.logs import NOW, append, with_settings
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.metadata import codec
from tailrace.metadata.records import (
    ClientQuotaRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    TopicRecord,
)
from tailrace.net.metadata.batches import encode_batch

TOPIC_ID = UUID(int=77)
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
EPOCH = 5
BEGIN, END, ABORT = b"\x01\x17\x00\x00", b"\x01\x18\x00\x00", b"\x01\x19\x00\x00"


def topic_records(
    replicas: tuple[int, ...], partitions: int = 1, epochs: Mapping[int, int] | None = None
) -> list[MetadataRecord]:
    """A topic `orders` that lies on these nodes, with configs and a quota; epochs of brokers' lives that are not 5."""
    return [
        TopicRecord("orders", TOPIC_ID),
        ConfigRecord(2, "orders", "retention.ms", "-1"),
        ConfigRecord(2, "orders", "brand.new.config", "x"),
        ClientQuotaRecord((QuotaEntity("user", "alice"),), "producer_byte_rate", 1024.0),
        ProducerIdsRecord(replicas[0], 5, 3000),
        *(PartitionRecord(n, TOPIC_ID, replicas, replicas, replicas[0], leader_epoch=4) for n in range(partitions)),
        *(RegisterBrokerRecord(node, UUID(int=node), (epochs or {}).get(node, EPOCH)) for node in replicas),
    ]


def write_metadata(directory: Path, values: Iterable[bytes], epoch: int = 3) -> None:
    """The metadata log with these encoded records in one batch."""
    folder = directory / "__cluster_metadata-0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "00000000000000000000.log").write_bytes(encode_batch(list(values), 0, epoch, NOW).data)


def kafka_directory(
    path: Path,
    node_id: int,
    replicas: tuple[int, ...],
    *,
    records: int = 30,
    epoch: int = EPOCH,
    partition: int = 0,
    partitions: int = 1,
    epochs: Mapping[int, int] | None = None,
) -> Path:
    """A cleanly stopped directory with one partition of `orders` in several segments.

    epoch is that of the life which it was closed in; epochs are those of the brokers' last lives in the metadata.
    """
    logs = LogDir.open(RealFilesystem(), str(path), node_id=node_id, cluster_id=CLUSTER_ID, now_ms=NOW)
    log = logs.create("orders", partition, TOPIC_ID, with_settings(segment_bytes=600))
    for number in range(records):
        append(log, b"value-%d" % number, leader_epoch=number // 10)
    logs.high_watermarks["orders", partition] = log.log_end_offset
    logs.close(broker_epoch=epoch)
    write_metadata(path, [codec.encode(record) for record in topic_records(replicas, partitions, epochs)])
    return path

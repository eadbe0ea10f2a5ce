"""The small text files beside the segments, byte for byte as Kafka writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from tailrace.kafka.ids import TopicPartition, format_uuid, parse_uuid
from tailrace.log.filesystem.port import Filesystem, read_if_present

RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET: Final = "log-start-offset-checkpoint"
REPLICATION_OFFSET: Final = "replication-offset-checkpoint"
CLEANER_OFFSET: Final = "cleaner-offset-checkpoint"
LEADER_EPOCH: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
META_PROPERTIES_VERSION: Final = "1"  # of KRaft; 0 was ZooKeeper's
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"
DISK_FAILED: Final = ".disk-failed"  # ours: see reread.py
MOVED_TO: Final = ".moved-to"  # ours: where `--how move` brought what was here; see cli.files.moved

_VERSION: Final = "0"


class DamagedCheckpoint(ValueError):
    """A checkpoint file that is not what its name says."""


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """topic partition offset, a line each, under the version and the count."""
    return _format(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def parse_offsets(content: bytes) -> dict[TopicPartition, int]:
    """Of an empty file none: so Kafka makes it at its first start, and leaves the cleaner's until something is cleaned.

    Raises DamagedCheckpoint or ValueError.
    """
    if not content:
        return {}
    return {(topic, int(partition)): int(offset) for topic, partition, offset in _parse(content, 3)}


def format_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """leader epoch and start offset, a line each, under the version and the count."""
    return _format(f"{epoch} {offset}" for epoch, offset in entries)


def parse_epochs(content: bytes) -> list[tuple[int, int]]:
    return [(int(epoch), int(offset)) for epoch, offset in _parse(content, 2)]


def _format(lines: Iterable[str]) -> bytes:
    rows = list(lines)
    return "".join(f"{line}\n" for line in (_VERSION, str(len(rows)), *rows)).encode()


def _parse(content: bytes, width: int) -> list[list[str]]:
    lines = content.decode().splitlines()
    rows = [line.split() for line in lines[2:] if line.strip()]
    if len(lines) < 2 or lines[0] != _VERSION or lines[1] != str(len(rows)) or any(len(row) != width for row in rows):
        raise DamagedCheckpoint("a checkpoint file has another version, count or width")
    return rows


def format_partition_metadata(topic_id: UUID) -> bytes:
    return f"version: 0\ntopic_id: {format_uuid(topic_id)}".encode()


def parse_partition_metadata(content: bytes) -> UUID:
    for line in content.decode().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "topic_id":
            return parse_uuid(value.strip())
    raise DamagedCheckpoint("partition.metadata has no topic_id")


def topic_id_in(filesystem: Filesystem, directory: str) -> UUID | None:
    """What a partition's partition.metadata says; None without it, or where a power cut left nothing in it."""
    content = read_if_present(filesystem, f"{directory}/{PARTITION_METADATA}")
    try:
        return None if content is None else parse_partition_metadata(content)
    except ValueError:
        return None


def one_bit_apart(first: bytes, second: bytes) -> bool:
    """Whether the one is the other with a single bit flipped: what a decaying disk does, and no writer."""
    if len(first) != len(second):
        return False
    return (int.from_bytes(first) ^ int.from_bytes(second)).bit_count() == 1


def format_meta_properties(cluster_id: str, node_id: int, directory_id: UUID) -> bytes:
    """meta.properties version 1 (KIP-631, KIP-858)."""
    directory = f"directory.id={format_uuid(directory_id)}"
    lines = (f"cluster.id={cluster_id}", directory, f"node.id={node_id}", f"version={META_PROPERTIES_VERSION}")
    return "".join(f"{line}\n" for line in lines).encode()


def parse_properties(content: bytes) -> dict[str, str]:
    """A Java properties file of plain key=value lines."""
    lines = (line.strip() for line in content.decode().splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {key.strip(): value.strip().replace("\\", "") for key, _, value in pairs}


class CleanShutdown(NamedTuple):
    """The epoch of the broker that shut down cleanly, and the offset of the metadata that it had followed; -1: none."""

    broker_epoch: int = -1
    metadata_offset: int = -1


def format_clean_shutdown(closed: CleanShutdown) -> bytes:
    """The marker's content since KIP-966. The metadata offset is ours; Kafka skips fields that it does not know."""
    content = {"version": 0, "brokerEpoch": closed.broker_epoch}
    if closed.metadata_offset >= 0:
        content["metadataOffset"] = closed.metadata_offset
    return json.dumps(content, separators=(",", ":")).encode()


def parse_clean_shutdown(content: bytes) -> CleanShutdown:
    """What the marker says; an older one is empty."""
    try:
        fields = json.loads(content)
        found = CleanShutdown(fields["brokerEpoch"], fields.get("metadataOffset", -1))
    except (ValueError, KeyError, TypeError, AttributeError):
        return CleanShutdown()
    return found if all(isinstance(value, int) for value in found) else CleanShutdown()

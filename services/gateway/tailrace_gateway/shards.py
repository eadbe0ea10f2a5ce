"""Which shard a group belongs to: its partition of __consumer_offsets, as Apache Kafka computes it."""

from __future__ import annotations

GROUP_METADATA_TOPIC = "__consumer_offsets"


def java_hash(text: str) -> int:
    """java.lang.String.hashCode: over UTF-16 code units, as a signed 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for(group_id: str, partitions: int) -> int:
    """abs(hash) % partitions, where the abs of the smallest int is 0 (Kafka's Utils.abs)."""
    value = java_hash(group_id)
    return 0 if value == -(1 << 31) else abs(value) % partitions

"""Which partition of an internal topic an id belongs to, as Apache Kafka computes it."""

from __future__ import annotations


def java_hash(text: str) -> int:
    """java.lang.String.hashCode: over UTF-16 code units, as a signed 32-bit number."""
    number = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        number = (31 * number + (high << 8 | low)) & 0xFFFFFFFF
    return number - (1 << 32) if number & 0x80000000 else number


def partition_for(text: str, partitions: int) -> int:
    """abs(hash) % partitions, where the abs of the smallest int is 0 (Kafka's Utils.abs)."""
    number = java_hash(text)
    return 0 if number == -(1 << 31) else abs(number) % partitions

"""Why a partition that is led here does not take a batch. What the log itself checks comes with the append."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Final

from tailrace.errors import ErrorCode
from tailrace.log.limits import Limits
from tailrace.wire.hot.produce import ProducePartition
from tailrace_broker.partitions.shard_barriers import refusal_of

if TYPE_CHECKING:
    from tailrace.metadata.image import MetadataImage
    from tailrace_broker.partitions.partition import Partition

ATTRIBUTES_LOW_BYTE: Final = 22
TRANSACTIONAL: Final = 0x10
_COMPRESSION_MASK: Final = 0x07
_ZSTD: Final = 4
_ZSTD_FROM: Final = 7
_BASE_OFFSET = Struct(">q")


def refusal(
    image: Callable[[], MetadataImage],
    partition: Partition,
    asked: ProducePartition,
    version: int,
    acks: int,
    *,
    service: bool,
    alone: bool,
) -> int:
    """The error code, NONE for a batch that may be appended.

    service: a role of this cluster asks, not a client. alone: nothing is staged for this partition.
    """
    if partition.internal and (code := _fenced(image, partition, asked, service, alone)):
        return code
    records = asked.records
    if records is not None and len(records) > ATTRIBUTES_LOW_BYTE:
        attributes = records[ATTRIBUTES_LOW_BYTE]
        if version < _ZSTD_FROM and attributes & _COMPRESSION_MASK == _ZSTD:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE  # KIP-110
    if acks == -1 and partition.leading is not None and not partition.enough_replicas:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return ErrorCode.NONE


def _fenced(
    image: Callable[[], MetadataImage], partition: Partition, asked: ProducePartition, service: bool, alone: bool
) -> int:
    """Internal topics take appends from their shard's owner only, in the shard epoch that a controller gave it.

    A batch whose base offset is set says where its owner believes the log ends: an append that was given up for
    lost and comes late, after the same owner fenced and read again, must not land behind what was decided since.
    """
    if not service or asked.shard_epoch < 0:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if code := refusal_of(partition, asked.shard_epoch, image()):
        return code
    if asked.records is not None and len(asked.records) >= _BASE_OFFSET.size:
        (expected,) = _BASE_OFFSET.unpack_from(asked.records)
        if expected and (expected != partition.log.log_end_offset or not alone):
            return ErrorCode.NOT_COORDINATOR
    return ErrorCode.NONE


def examines(partition: Partition) -> Limits | None:
    """The limits of a partition whose topic has the batches of clients looked into; None of any other."""
    if partition.internal:
        return None
    try:
        limits = partition.log.limits
    except OSError:
        return None  # the append says so
    return limits if limits.looks else None


def answers_later(partition: Partition, acks: int) -> bool:
    """Whether an append there may not be answered at once: other replicas, or flush.messages."""
    if acks == -1 and partition.leading is not None:
        return True
    log = partition.opened
    return log is None or log.limits.flushes

"""Shard barriers: control batches in an internal topic that carry the epoch of the coordinator that owns the shard.

A new owner appends one before it reads, so that whatever an older owner still sends is refused, also after this
broker restarted and forgot what it saw in requests. Consumers and Kafka's tools skip control records of types they do
not know.
"""

from __future__ import annotations

from struct import Struct

from tailrace.errors import ErrorCode
from tailrace.log.log import Log
from tailrace.metadata.image import MetadataImage
from tailrace.records.batch import read_header, split
from tailrace.records.record import Record, build, iterate
from tailrace_broker.partitions.partition import Partition

BARRIER_TYPE = 10_004
# Not 0, as of Kafka's control records: Kafka's transaction coordinator takes a key of version 0 in its log for that of
# a transactional id, loads nothing of the partition after it, and leaves other versions alone.
_KEY_VERSION = 1
_KEY = Struct(">hh")
_VALUE = Struct(">hii")
_CHUNK_BYTES = 1_048_576


def barrier(shard_epoch: int, coordinator_id: int, now_ms: int) -> bytearray:
    """The control batch of one barrier."""
    value = _VALUE.pack(0, shard_epoch, coordinator_id)
    return build([Record(timestamp=now_ms, key=_KEY.pack(_KEY_VERSION, BARRIER_TYPE), value=value)], control=True)


def last_barrier_epoch(log: Log) -> int:
    """The shard epoch of the log's last barrier, -1 without one. Decodes control batches only, in one pass."""
    epoch, offset = -1, log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, _CHUNK_BYTES).read()
        for batch in split(data):
            header = read_header(batch)
            offset = header.next_offset
            if header.is_control:
                epoch = max(epoch, _epoch_of(bytes(batch)))
    return epoch


def _epoch_of(batch: bytes) -> int:
    epoch = -1
    for record in iterate(batch):
        if record.key is None or record.value is None or len(record.value) < _VALUE.size:
            continue
        if _KEY.unpack_from(record.key)[1] == BARRIER_TYPE:
            epoch = max(epoch, _VALUE.unpack_from(record.value)[1])
    return epoch


def refusal_of(partition: Partition, shard_epoch: int, image: MetadataImage) -> int:
    """NOT_COORDINATOR to an older owner; UNKNOWN_LEADER_EPOCH to one that no controller is known to have given.

    Known is what the image says, and what an earlier leader, who knew it from its own, wrote into the log.
    """
    _learn(partition, image)
    if shard_epoch < partition.shard_epoch:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_LEADER_EPOCH if shard_epoch > partition.shard_epoch else ErrorCode.NONE


def _learn(partition: Partition, image: MetadataImage) -> None:
    """Raises the partition's shard epoch to what the image and, once, the log's last barrier say."""
    if partition.shard_epoch < 0:
        partition.shard_epoch = max(0, last_barrier_epoch(partition.log))
    shard = image.shards.get((partition.topic, partition.index))
    if shard is not None and shard.shard_epoch > partition.shard_epoch:
        partition.shard_epoch = shard.shard_epoch

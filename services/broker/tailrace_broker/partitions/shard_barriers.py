"""Shard barriers: control batches in an internal topic that carry the epoch of the coordinator that owns the shard.

A new owner appends one before it reads, so that whatever an older owner still sends is refused, also after this
broker restarted and forgot what it saw in requests. Consumers and Kafka's tools skip control records of types they do
not know.
"""

from __future__ import annotations

from struct import Struct

from tailrace.errors import ErrorCode
from tailrace.log.background_lookup import SegmentSearch
from tailrace.log.segment.valid import headers
from tailrace.metadata.image import MetadataImage
from tailrace.records.record import Record, build, iterate
from tailrace_broker.partitions.partition import Partition

BARRIER_TYPE = 10_004
# Not 0, as of Kafka's control records: Kafka's transaction coordinator takes a key of version 0 in its log for that of
# a transactional id, loads nothing of the partition after it, and leaves other versions alone.
_KEY_VERSION = 1
_KEY = Struct(">hh")
_VALUE = Struct(">hii")


def barrier(shard_epoch: int, coordinator_id: int, now_ms: int) -> bytearray:
    """The control batch of one barrier."""
    value = _VALUE.pack(0, shard_epoch, coordinator_id)
    return build([Record(timestamp=now_ms, key=_KEY.pack(_KEY_VERSION, BARRIER_TYPE), value=value)], control=True)


class BarrierSearch(SegmentSearch[int]):
    """The shard epoch of a log's last barrier, -1 without one. Reads the records of control batches alone."""

    __slots__ = ()

    def run(self) -> int:
        """Epochs never fall in a log: the newest segment with a barrier has the largest."""
        for segment in reversed(self.segments):
            epoch = -1
            for position, header in headers(segment, 0, self.mode):
                if header.is_control:
                    epoch = max(epoch, _epoch_of(bytes(segment.read_batch(position, header, self.mode))))
            if epoch >= 0:
                return epoch
        return -1


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

    Known is what the image says, and what a leader with a newer one wrote into the log (handlers/fence_shard.py).
    """
    shard = image.shards.get((partition.topic, partition.index))
    known = max(0, partition.shard_epoch, -1 if shard is None else shard.shard_epoch)
    if shard_epoch < known:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_LEADER_EPOCH if shard_epoch > known else ErrorCode.NONE

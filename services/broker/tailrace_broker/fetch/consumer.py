"""A consumer's row of a partition: why it is refused, or what it may read there.

Any replica serves consumers (KIP-392); a leader with a rack-aware selector sends them to one in their rack. Where the
history of a consumer differs, its row says from where (KIP-595). read_committed reads to the last stable offset and is
told of the aborted transactions in what it reads. A new leader has no news before its high watermark has reached its
epoch's start (KIP-207).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.access.resources import AclOperation
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.session import ClientSession
from tailrace.wire.hot.fetch import Fetch, FetchPartition, PartitionData
from tailrace_broker.fetch.read import Reads
from tailrace_broker.partitions.follower import UNKNOWN_EPOCH, diverges
from tailrace_broker.partitions.partition import FetchIsolation

if TYPE_CHECKING:
    from tailrace_broker.fetch.delayed import FetchParts
    from tailrace_broker.partitions.partition import Partition

_NONE_ABORTED: Final[Sequence[tuple[int, int]]] = ()
_READ_COMMITTED: Final = 1
_ANY_REPLICA_FROM: Final = 11
_HINTS_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
_MOVED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class FetchPartitionStatus(NamedTuple):
    """What was found of one partition that could be read. Named as in Kafka."""

    key: bytes
    want: FetchPartition
    size_bytes: int
    high_watermark: int


class ConsumerRows:
    """The rows of one fetch, and what was found of its partitions when they were looked at last."""

    __slots__ = (
        "_committed",
        "_isolation",
        "_parts",
        "_request",
        "_session",
        "_version",
        "full_up",
        "opened",
        "places",
    )

    def __init__(self, parts: FetchParts, version: int, request: Fetch, session: ClientSession) -> None:
        self._parts, self._session = parts, session
        self._version, self._request = version, request
        self._committed = request.isolation_level == _READ_COMMITTED
        self._isolation = FetchIsolation.TXN_COMMITTED if self._committed else FetchIsolation.HIGH_WATERMARK
        self.places: dict[Partition, FetchPartitionStatus] = {}
        self.full_up = False  # a row ends before what its consumer may read: no append makes the answer longer
        self.opened = False  # a log had to be opened, which takes longer than a row

    def row(self, key: bytes, want: FetchPartition, reads: Reads) -> PartitionData:
        """With a slice in place of its records; without where those are missing (reads.missing)."""
        topics, version = self._parts.topics, self._version
        session, by_id = self._session, version >= TOPIC_IDS_FROM
        if session.restricted and (code := self._parts.rights.refusal(session, AclOperation.READ, key, by_id=by_id)):
            return unreadable(want.partition, code)
        find = topics.readable if version >= _ANY_REPLICA_FROM else topics.leading
        partition, code = find(key, want.partition, by_id=by_id)
        if partition is None:
            hint = self._parts.hints.leader(key, want.partition) if version >= _HINTS_FROM else None
            return PartitionData(want.partition, code, -1, -1, -1, None, hint if code in _MOVED else None, True)
        if partition.opened is None:
            self.opened = True
        try:
            partition.check_epoch(max(-1, want.current_leader_epoch))  # here, any negative one says nothing
            if min(want.max_bytes, self._request.max_bytes) < 0:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka answers it
            if want.last_fetched_epoch > partition.leader_epoch:  # read of a leader that is not known here
                raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if want.last_fetched_epoch != UNKNOWN_EPOCH or self._request.rack_id:
                elsewhere = self._elsewhere(partition, want)
                if elsewhere is not None:
                    return elsewhere
            return self._read(key, want, partition, reads)
        except ApiError as refused:
            return unreadable(want.partition, refused.code)
        except OSError:
            return unreadable(want.partition, ErrorCode.KAFKA_STORAGE_ERROR)

    def _elsewhere(self, partition: Partition, want: FetchPartition) -> PartitionData | None:
        """The row without records that has the consumer go back to an offset, or to another replica."""
        if want.last_fetched_epoch != UNKNOWN_EPOCH:
            log = partition.log
            diverging = diverges(log.epochs, log.log_end_offset, want.last_fetched_epoch, want.fetch_offset)
            if diverging is not None:
                return PartitionData(want.partition, 0, *_marks(partition), None, None, True, diverging=diverging)
        if partition.leading is not None and (rack := self._request.rack_id):
            preferred = self._parts.hints.preferred_replica(partition, rack, want.fetch_offset)
            if preferred >= 0:
                return PartitionData(want.partition, 0, *_marks(partition), None, None, True, preferred=preferred)
        return None

    def _read(self, key: bytes, want: FetchPartition, partition: Partition, reads: Reads) -> PartitionData:
        log, committed = partition.log, self._committed
        left, found, aborted = reads.left_bytes, None, _NONE_ABORTED
        if left or reads.min_one:
            found = reads.find(partition, want.fetch_offset, min(want.max_bytes, left), self._isolation)
        if found is not None:
            if found.length and found.next_offset < partition.visible_end(committed):
                self.full_up = True
            if committed and log.segments.has_aborted:
                aborted = log.aborted_transactions(want.fetch_offset, found)
        mark = partition.high_watermark
        self.places[partition] = FetchPartitionStatus(key, want, 0 if found is None else found.length, mark)
        if not partition.settled:  # a consumer that reads from here has seen a mark that high from the leader before
            mark = max(mark, min(want.fetch_offset, log.log_end_offset))
        stable, start = log.last_stable_offset(mark), log.log_start_offset
        return PartitionData(want.partition, 0, mark, stable, start, found, None, committed, transactions=aborted)


def unreadable(index: int, code: int) -> PartitionData:
    """The row of a partition that is refused."""
    return PartitionData(index, code, -1, -1, -1, None, None, True)


def _marks(partition: Partition) -> tuple[int, int, int]:
    """(high watermark, last stable offset, log start offset)."""
    log = partition.log
    return partition.high_watermark, log.last_stable_offset(partition.high_watermark), log.log_start_offset

"""Fetch by a follower (replica id set; v15 and later as a tag with its broker epoch): how replication moves.

Records go up to the log end, the fetch offset says what the follower has, and diverging_epoch (KIP-595) where its log
must be cut. The answer waits for data, not for a new high watermark; that comes with the next data or the timeout.

What a follower that catches up wants from the disk, threads bring into the page cache first (cold_reads/).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import HotConnection
from tailrace.wire.hot.fetch import Fetch, FetchPartition, PartitionData, encode_fetch_answer
from tailrace.wire.pieces import Piece
from tailrace_broker.fetch.delayed import AskedFetch, DelayedFetch, FetchAnswer, FetchParts
from tailrace_broker.fetch.read import Reads
from tailrace_broker.fetch.sessions import MOST_PARTITIONS, FetchSessions, wanted
from tailrace_broker.partitions.partition import FetchIsolation, FetchPosition
from tailrace_broker.replication.caught_up import CaughtUp, FollowedPartitions

if TYPE_CHECKING:
    from tailrace_broker.partitions.partition import EndWaiters, Partition
    from tailrace_broker.replication.caught_up import Read

_SESSIONS = 1000  # one per follower and its fetchers
_NOTHING = b""


class FollowerFetches:
    """The leader's side for one broker."""

    def __init__(self, parts: FetchParts) -> None:
        self._parts = parts
        # A fetch looks at what is new in its session: that may be as long as the broker has partitions.
        self.sessions = FetchSessions(_SESSIONS, most_of_one=MOST_PARTITIONS)

    def serve(self, connection: HotConnection, version: int, correlation_id: int, request: Fetch) -> FetchAnswer:
        """The answer's buffers at once, or a future of them."""
        parts = self._parts
        if not connection.session.is_service:
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return encode_fetch_answer(version, correlation_id, 0, code, [])
        try:
            session, full = self.sessions.open(request, parts.clock.monotonic_ms(), parts.new_session_id())
        except ApiError as refused:
            return encode_fetch_answer(version, correlation_id, 0, refused.code, [])
        asked = AskedFetch(connection, version, correlation_id, request, session, full)
        fetch = FollowerFetch(parts, asked)
        fetch.on_fetch()
        return fetch.begin()


class FollowerFetch(DelayedFetch):
    """One fetch of a follower: heard once, then parked until one of its partitions has data, then read."""

    __slots__ = ("_followed", "_rows", "_to_read", "_waits_for")

    def __init__(self, parts: FetchParts, asked: AskedFetch) -> None:
        super().__init__(parts, asked)
        self._rows: list[tuple[bytes, PartitionData]] = []  # errors and divergences: answered at once
        self._to_read: list[Read] = []  # but for what is quiet
        session = asked.session
        if session is not None and session.followed is None:
            session.followed = FollowedPartitions(session.wants)
        self._followed = None if session is None else session.followed
        self._waits_for: dict[EndWaiters, Read] = {}  # by the tail that is marked when there is news

    def begin(self) -> FetchAnswer:
        """The answer's buffers, or a future of them."""
        request = self._request
        ready = self.ready() or request.max_wait_ms <= 0
        answer = self._reply() if ready else None
        if answer is not None:
            return answer
        future = self._promise()
        if not ready:
            self._waits_for = {read[2].tail: read for read in self._to_read}
            self._park(self._waits_for)
            if self._followed is not None:
                self._followed.on_news = self._on_news
        return future

    def _on_news(self, tail: EndWaiters, read: Read) -> None:
        """Something has happened to a partition that was quiet: it is as the others from now on."""
        if not self.done and tail not in self._waits_for:
            self._to_read.append(read)
            self._waits_for[tail] = read
            tail.waiters.add(self)
            self.try_complete(tail)

    def on_fetch(self) -> None:
        """Takes note of every position; high watermarks and ISRs may move."""
        session, followed = self._session, self._followed
        if session is None or followed is None:
            for key, want in wanted(self._request, None):
                self._look_at(key, want)
            return
        followed.on_fetch(self._request.replica_epoch, self._parts.clock.monotonic_ms())
        for place, unnamed in list(followed.others.items()):
            key, want = place[0], session.wants[place]
            partition = self._look_at(key, want)
            if partition is None or not unnamed:
                followed.others[place] = True
            elif (caught_up := CaughtUp.of(key, want, partition, self._request.replica_id)) is not None:
                followed.rest(place, caught_up)

    def _look_at(self, key: bytes, want: FetchPartition) -> Partition | None:
        """Takes note of one position; the partition if it is to be read."""
        partition, code = self._parts.topics.leading(key, want.partition, by_id=self._version >= 13)
        if partition is None:
            self._rows.append((key, _refused(want.partition, code)))
            return None
        return partition if self._on_position(key, want, partition) else None

    def _on_position(self, key: bytes, want: FetchPartition, partition: Partition) -> bool:
        """Takes note of one position; whether there is nothing to tell the follower of it at once."""
        try:
            partition.check_epoch(want.current_leader_epoch)
            position = FetchPosition(want.fetch_offset, want.last_fetched_epoch, want.log_start_offset)
            diverging = partition.on_fetch_position(self._request.replica_id, self._request.replica_epoch, position)
        except ApiError as refused:
            self._rows.append((key, _refused(want.partition, refused.code, partition)))
            return False
        except OSError:
            self._rows.append((key, _refused(want.partition, ErrorCode.KAFKA_STORAGE_ERROR)))
            return False
        if diverging is not None:
            mark, start = partition.high_watermark, partition.log.log_start_offset
            row = PartitionData(want.partition, 0, mark, mark, start, None, diverging=diverging)
            self._rows.append((key, row))
            return False
        self._to_read.append((key, want, partition, partition.leading))
        self._parts.isr.on_fetch_position(partition)
        return True

    def ready(self) -> bool:
        """Whether there is anything to tell: data, deleted records, an error or a divergence."""
        if self._rows or not (self._to_read or (self._followed is not None and self._followed.quiet)):
            return True
        return any(map(self._has_data, self._to_read))

    def _has_data(self, read: Read) -> bool:
        """Whether there is more of the partition, or less: records or a later start."""
        _, want, partition, _ = read
        log = partition.log
        if log.log_end_offset > want.fetch_offset and not self._held_back(partition):
            return True
        return log.log_start_offset > want.log_start_offset

    def _held_back(self, partition: Partition) -> bool:
        """KIP-73: throttled, and the rate is used up."""
        throttled = partition.throttled_for(self._request.replica_id)
        return throttled and self._parts.leader_throttle.wait_ms() > 0

    def try_complete(self, key: EndWaiters) -> None:
        """Looks at the partition that has news alone: one of thousands, each time that somebody writes."""
        read = self._waits_for.get(key)
        if read is None or self._is_moved(read) or self._has_data(read):
            self._drop_moved()
            if self.ready():
                self._finish()

    def expire(self) -> None:
        self._drop_moved()
        self._finish()

    def _is_moved(self, read: Read) -> bool:
        _, _, partition, leadership = read
        return leadership is not partition.leading or partition.leader != self._parts.topics.node_id

    def _drop_moved(self) -> None:
        """What was heard in another leadership than the present one is refused, not read."""
        if not any(map(self._is_moved, self._to_read)):
            return
        kept = []
        for key, want, partition, leadership in self._to_read:
            leading, code = self._parts.topics.leading(key, want.partition, by_id=self._version >= 13)
            if leading is not partition or partition.leading is None:
                self._rows.append((key, _refused(want.partition, code or ErrorCode.NOT_LEADER_OR_FOLLOWER)))
            elif want.current_leader_epoch not in (-1, partition.leader_epoch):
                self._rows.append((key, _refused(want.partition, ErrorCode.FENCED_LEADER_EPOCH)))
            else:
                kept.append((key, want, partition, leadership))
                continue
            partition.tail.waiters.discard(self)
        self._to_read = kept

    def _finish(self) -> None:
        self.done = True  # it is read now, however long the disk takes
        if self.future is None or self.future.done():
            return
        answer = self._reply()
        if answer is not None:
            self.future.set_result(answer)

    def look_again(self) -> None:
        self._drop_moved()
        self._finish()

    def leave(self) -> None:
        for _, _, partition, _ in self._to_read:
            partition.tail.waiters.discard(self)
        if self._followed is not None and self._followed.on_news == self._on_news:
            self._followed.on_news = None

    def _reply(self) -> list[Piece] | None:
        """The answer's buffers; None if it comes later because the disk must be waited for."""
        rows, reads = [], self._new_reads(self._request.max_bytes)
        throttle, charged = self._parts.leader_throttle, 0
        self._reads = reads
        for key, want, partition, _ in self._to_read:
            if self._has_no_news(key, want, partition):
                continue
            row = self._read(want, partition, reads)
            if row.records and partition.throttled_for(self._request.replica_id):
                throttle.charge(len(row.records))
                charged += len(row.records)
            rows.append((key, row))
        if not reads.missing:
            return self._encode(rows)
        throttle.charge(-charged)  # none of it leaves yet
        self._ask_disk()
        return None

    def _has_no_news(self, key: bytes, want: FetchPartition, partition: Partition) -> bool:
        """Whether an incremental answer would leave its row out."""
        session, log, mark = self._session, partition.log, partition.high_watermark
        if session is None or self._full or log.log_end_offset > want.fetch_offset:
            return False
        return session.known.get((key, want.partition)) == (mark, mark, log.log_start_offset)  # as Session.news

    def _encode(self, rows: list[tuple[bytes, PartitionData]]) -> list[Piece]:
        """The answer's buffers; an incremental one leaves out what has no news."""
        session = self._session
        topics: dict[bytes, list[PartitionData]] = {}
        served: list[tuple[bytes, int]] = []
        for key, row in self._rows:
            if session is not None:
                session.news(key, row)
            topics.setdefault(key, []).append(row)
        for key, row in rows:
            if row.records:
                self._parts.metrics.replication_bytes_out += len(row.records)
                served.append((key, row.partition))
            if session is None or session.news(key, row) or self._full:
                topics.setdefault(key, []).append(row)
        session_id = 0
        if session is not None:
            session.rotate(served)
            session_id = session.session_id
        return encode_fetch_answer(self._version, self._correlation_id, session_id, 0, list(topics.items()))

    def _read(self, want: FetchPartition, partition: Partition, reads: Reads) -> PartitionData:
        """The partition's row; without records where those are missing."""
        log, piece, records = partition.log, None, None
        try:
            behind = log.log_end_offset > want.fetch_offset and not self._held_back(partition)
            if behind and (reads.left_bytes or reads.min_one):
                limit = min(want.max_bytes, reads.left_bytes)
                piece = reads.find(partition, want.fetch_offset, limit, FetchIsolation.LOG_END)
            if piece is not None:
                records = reads.load(piece)
        except ApiError as refused:
            return _refused(want.partition, refused.code, partition)
        except OSError:
            return _refused(want.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        mark = partition.high_watermark
        return PartitionData(want.partition, 0, mark, mark, log.log_start_offset, records or _NOTHING)


def _refused(index: int, code: int, partition: Partition | None = None) -> PartitionData:
    """An error row; with OFFSET_OUT_OF_RANGE goes where the log begins, so that the follower can begin there too."""
    start = -1
    if code == ErrorCode.OFFSET_OUT_OF_RANGE and partition is not None:
        start = partition.log.log_start_offset
    return PartitionData(index, int(code), -1, -1, start, None)

"""Fetch by a follower (replica id set; v15 and later as a tag with its broker epoch): how replication moves.

Records go up to the log end, the fetch offset says what the follower has, and diverging_epoch (KIP-595) where its log
must be cut. The answer waits for data, not for a new high watermark; that comes with the next data or the timeout.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.wire.fetch import Fetch, FetchPartition, PartitionData, encode_fetch_answer
from tailrace_broker.fetch_sessions import FetchSessions, Session, asked
from tailrace_broker.partition import Position

if TYPE_CHECKING:
    from tailrace_broker.broker import Broker
    from tailrace_broker.partition import Partition

_SESSIONS = 1000  # one per follower and its fetchers
_NOTHING = b""


class FollowerFetch:
    """The leader's side for one broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.sessions = FetchSessions(_SESSIONS)

    def handle(self, connection: Any, version: int, correlation_id: int, request: Fetch) -> Any:
        """The answer's buffers at once, or a future of them."""
        broker = self.broker
        if connection.identity.listener != "INTERNAL":
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return encode_fetch_answer(version, correlation_id, 0, code, [])
        try:
            session, full = self.sessions.open(request, broker.monotonic_ms(), broker.new_session_id())
        except ApiError as refused:
            return encode_fetch_answer(version, correlation_id, 0, refused.code, [])
        wait = FollowerWait(broker, version, correlation_id, request, session, full)
        wait.hear()
        if wait.ready() or request.max_wait_ms <= 0:
            return wait.encode()
        wait.future = asyncio.get_running_loop().create_future()
        wait.future.add_done_callback(wait.forget)
        broker.purgatory.park(wait, [partition.tail for _, _, partition in wait.reads], request.max_wait_ms)
        return wait.future


class FollowerWait:
    """One fetch of a follower: heard once, then parked until one of its partitions has data."""

    __slots__ = (
        "_broker",
        "_correlation_id",
        "_full",
        "_request",
        "_rows",
        "_session",
        "_version",
        "done",
        "future",
        "reads",
    )

    def __init__(
        self, broker: Broker, version: int, correlation_id: int, request: Fetch, session: Session | None, full: bool
    ) -> None:
        self._broker = broker
        self._version = version
        self._correlation_id = correlation_id
        self._request = request
        self._session = session
        self._full = full
        self._rows: list[tuple[bytes, PartitionData]] = []  # errors and divergences: answered at once
        self.reads: list[tuple[bytes, FetchPartition, Partition]] = []
        self.future: asyncio.Future[list[Any]] | None = None
        self.done = False

    def hear(self) -> None:
        """Takes note of every position; high watermarks and ISRs may move."""
        by_id = self._version >= 13
        for key, want in asked(self._request, self._session):
            partition, code = self._broker.leading(key, want.partition, by_id=by_id)
            if partition is None:
                self._rows.append((key, _refused(want.partition, code)))
                continue
            try:
                partition.check_epoch(want.current_leader_epoch)
                position = Position(want.fetch_offset, want.last_fetched_epoch, want.log_start_offset)
                diverging = partition.heard(self._request.replica_id, self._request.replica_epoch, position)
            except ApiError as refused:
                self._rows.append((key, _refused(want.partition, refused.code, partition)))
                continue
            except OSError:
                self._rows.append((key, _refused(want.partition, ErrorCode.KAFKA_STORAGE_ERROR)))
                continue
            if diverging is None:
                self.reads.append((key, want, partition))
                self._broker.heard(partition)
            else:
                mark, start = partition.high_watermark, partition.log.log_start_offset
                row = PartitionData(want.partition, 0, mark, mark, start, None, diverging=diverging)
                self._rows.append((key, row))

    def ready(self) -> bool:
        """Whether there is anything to tell: data, deleted records, an error or a divergence."""
        if self._rows or not self.reads:
            return True
        return any(
            (partition.log.log_end_offset > want.fetch_offset and not self._held_back(partition))
            or partition.log.log_start_offset > want.log_start_offset
            for _, want, partition in self.reads
        )

    def _held_back(self, partition: Partition) -> bool:
        """KIP-73: throttled, and the rate is used up."""
        throttled = partition.throttled_for(self._request.replica_id)
        return throttled and self._broker.leader_throttle.wait_ms() > 0

    def try_complete(self) -> None:
        self._drop_moved()
        if self.ready():
            self._finish()

    def expire(self) -> None:
        self._drop_moved()
        self._finish()

    def _drop_moved(self) -> None:
        """What was heard in another leadership than the present one is refused, not read."""
        kept = []
        for key, want, partition in self.reads:
            leading, code = self._broker.leading(key, want.partition, by_id=self._version >= 13)
            if leading is not partition or partition.leading is None:
                self._rows.append((key, _refused(want.partition, code or ErrorCode.NOT_LEADER_OR_FOLLOWER)))
            elif want.current_leader_epoch not in (-1, partition.leader_epoch):
                self._rows.append((key, _refused(want.partition, ErrorCode.FENCED_LEADER_EPOCH)))
            else:
                kept.append((key, want, partition))
                continue
            partition.tail.waiters.discard(self)
        self.reads = kept

    def _finish(self) -> None:
        self.done = True
        if self.future is not None and not self.future.done():
            self.future.set_result(self.encode())

    def forget(self, _: object) -> None:
        """After the answer, or when the follower went away: no partition holds on to this wait."""
        self.done = True
        for _, _, partition in self.reads:
            partition.tail.waiters.discard(self)

    def encode(self) -> list[Any]:
        """The answer's buffers; an incremental one leaves out what has no news."""
        session, budget = self._session, self._request.max_bytes
        topics: dict[bytes, list[PartitionData]] = {}
        served: list[tuple[bytes, int]] = []
        for key, row in self._rows:
            if session is not None:
                session.news(key, row)
            topics.setdefault(key, []).append(row)
        for key, want, partition in self.reads:
            row = self._read(want, partition, budget, first=not served)
            if row.records:
                budget -= len(row.records)
                served.append((key, want.partition))
            if session is None or session.news(key, row) or self._full:
                topics.setdefault(key, []).append(row)
        session_id = 0
        if session is not None:
            session.rotate(served)
            session_id = session.session_id
        return encode_fetch_answer(self._version, self._correlation_id, session_id, 0, list(topics.items()))

    def _read(self, want: FetchPartition, partition: Partition, budget: int, *, first: bool) -> PartitionData:
        log, records = partition.log, _NOTHING
        try:
            behind = log.log_end_offset > want.fetch_offset and not self._held_back(partition)
            if behind and (budget > 0 or first):
                limit = min(want.max_bytes, max(0, budget))
                records = partition.read_for_follower(want.fetch_offset, limit, min_one=first).read()
        except ApiError as refused:
            return _refused(want.partition, refused.code, partition)
        except OSError:
            return _refused(want.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        self._broker.metrics.replication_bytes_out += len(records)
        if records and partition.throttled_for(self._request.replica_id):
            self._broker.leader_throttle.charge(len(records))
        mark = partition.high_watermark
        return PartitionData(want.partition, 0, mark, mark, log.log_start_offset, records)


def _refused(index: int, code: int, partition: Partition | None = None) -> PartitionData:
    """An error row; with OFFSET_OUT_OF_RANGE goes where the log begins, so that the follower can begin there too."""
    start = -1
    if code == ErrorCode.OFFSET_OUT_OF_RANGE and partition is not None:
        start = partition.log.log_start_offset
    return PartitionData(index, int(code), -1, -1, start, None)

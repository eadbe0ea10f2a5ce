"""Fetch v4-18. v7: sessions (KIP-227). v9: leader epochs (KIP-320). v12: flexible. v13: topic ids. v16: leader hints.

v12: the epoch of the last record read; where our history differs, diverging_epoch says from where (KIP-595).

Whole batches, from the one that holds the offset; at least one even above max_bytes; an empty success at the timeout.
read_committed reads to the last stable offset and is told of the aborted transactions in what it reads. Any replica
serves consumers (KIP-392); a leader with a rack-aware selector sends them to one in their rack. A new leader has no
news before its high watermark has reached its epoch's start (KIP-207). Followers: follower_fetch.py.

Large pieces of a log leave as slices, which the connection sends from the page cache uncopied. What is not in the page
cache is brought there by threads first (cold_reads.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.log.reading import Slice
from tailrace.net.context import Identity
from tailrace.wire.fetch import (
    Fetch,
    FetchPartition,
    PartitionData,
    decode_fetch,
    encode_fetch_answer,
    node_endpoints,
)
from tailrace_broker.cold_reads import ColdReads
from tailrace_broker.fetch_sessions import FINAL_EPOCH, FetchSessions, Session, asked
from tailrace_broker.handlers.follower_fetch import FollowerFetch
from tailrace_broker.replication.follower import diverges

if TYPE_CHECKING:
    from tailrace_broker.broker import Broker
    from tailrace_broker.partition import Partition

_NOTHING = b""
_SENDFILE_BYTES = 65_536  # below it a copy is cheaper than the calls (dataplane.md)
_NONE_ABORTED: Sequence[tuple[int, int]] = ()
_READ_COMMITTED = 1
_ANY_REPLICA_FROM = 11
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class FetchPath:
    """Fetch for one broker: sessions, long poll and encoding."""

    def __init__(self, broker: Broker, sessions: FetchSessions, cold: ColdReads) -> None:
        self.broker = broker
        self.sessions = sessions
        self.cold = cold
        self.followers = FollowerFetch(broker)

    def handle(self, connection: Any, version: int, correlation_id: int, body: memoryview) -> Any:
        """The answer's buffers at once, or a future of them when it must wait."""
        request = decode_fetch(version, body)
        broker = self.broker
        if request.replica_id >= 0:
            return self.followers.handle(connection, version, correlation_id, request)
        if request.session_id == 0 and request.session_epoch == FINAL_EPOCH and len(request.topics) == 1:
            answer = self._at_once(version, correlation_id, request, connection.sends_files)
            if answer is not None:
                return answer
        try:
            session, full = self.sessions.open(request, broker.monotonic_ms(), broker.new_session_id())
        except ApiError as refused:
            return encode_fetch_answer(version, correlation_id, 0, refused.code, [])
        wait = FetchWait(self, version, correlation_id, connection.identity, request, session, full)
        wait.sends_files = connection.sends_files
        rows, ready = wait.collect()
        if ready or request.max_wait_ms <= 0:
            return wait.reply(rows)
        wait.future = asyncio.get_running_loop().create_future()
        wait.future.add_done_callback(wait.forget)
        broker.purgatory.park(wait, wait.partitions, request.max_wait_ms)
        return wait.future

    def _at_once(self, version: int, correlation_id: int, request: Fetch, sends_files: bool) -> list[Any] | None:
        """One partition, no session, enough data: nothing that could wait is built. None for all else."""
        key, wants = request.topics[0]
        if len(wants) != 1:
            return None
        index, leader_epoch, offset, last_epoch, _, limit = wants[0]
        partition, _ = self.broker.leading(key, index, by_id=version >= 13)
        if partition is None or last_epoch >= 0 or (leader_epoch >= 0 and leader_epoch != partition.leader_epoch):
            return None
        if partition.leading is not None and (request.rack_id or not partition.settled):
            return None
        limit = min(limit, request.max_bytes, self.broker.config.fetch_max_bytes)
        committed = request.isolation_level == _READ_COMMITTED
        try:
            log, mark = partition.log, partition.high_watermark
            if log.producers.transactions.first_unstable_offset < mark or (committed and log.has_aborted):
                return None  # the long way knows of transactions
            piece = partition.read(offset, limit, min_one=True)
            if piece.length < max(1, request.min_bytes):
                return None
            records = loaded(piece, sends_files)
        except (ApiError, OSError):
            return None  # the long way says why
        if records is None:
            return None  # and waits for the disk
        self.broker.metrics.bytes_out += len(records)
        row = PartitionData(index, 0, mark, mark, log.log_start_offset, records, None, committed)
        return encode_fetch_answer(version, correlation_id, 0, 0, [(key, [row])])


def loaded(piece: Slice, sends_files: bool) -> Any:
    """The records as they will be sent; None where the disk would have to be waited for."""
    if sends_files and piece.length >= _SENDFILE_BYTES:
        return piece if piece.cached() else None
    return piece.read_cached()


class FetchWait:
    """One fetch, parked until it has min_bytes, an error, or waited long enough."""

    __slots__ = (
        "_correlation_id",
        "_full",
        "_identity",
        "_path",
        "_request",
        "_session",
        "_version",
        "_wants",
        "done",
        "future",
        "partitions",
        "sends_files",
    )

    def __init__(
        self,
        path: FetchPath,
        version: int,
        correlation_id: int,
        identity: Identity,
        request: Fetch,
        session: Session | None,
        full: bool,
    ) -> None:
        self._path = path
        self._version = version
        self._correlation_id = correlation_id
        self._identity = identity
        self._request = request
        self._session = session
        self._full = full
        self._wants = list(asked(request, session))
        self.partitions: list[Any] = []
        self.future: asyncio.Future[list[Any]] | None = None
        self.sends_files = False
        self.done = False

    def collect(self) -> tuple[list[tuple[bytes, PartitionData]], bool]:
        """What could be answered now, with slices in place of records, and whether that is enough."""
        request = self._request
        budget, total, rows, failed = min(request.max_bytes, self._path.broker.config.fetch_max_bytes), 0, [], False
        self.partitions = []
        for key, want in self._wants:
            row = self._one(key, want, max(0, budget), total == 0)
            if row.error_code or row.preferred >= 0 or row.diverging is not None:
                failed = True
            elif row.records is not None:
                size = row.records.length
                budget -= size
                total += size
            rows.append((key, row))
        return rows, failed or total >= request.min_bytes or not self._wants

    def _one(self, key: bytes, want: FetchPartition, budget: int, first: bool) -> PartitionData:
        broker = self._path.broker
        version, committed = self._version, self._request.isolation_level == _READ_COMMITTED
        find = broker.readable if version >= _ANY_REPLICA_FROM else broker.leading
        partition, code = find(key, want.partition, by_id=version >= 13)
        if partition is None:
            hint = broker.leader_hint(key, want.partition) if version >= 12 else None
            return PartitionData(want.partition, code, -1, -1, -1, None, hint if code in _MOVED else None, True)
        try:
            partition.check_epoch(want.current_leader_epoch)
            log = partition.log
            diverging = diverges(log, want.last_fetched_epoch, want.fetch_offset)
            if diverging is not None:
                return PartitionData(want.partition, 0, *_marks(partition), None, None, True, diverging=diverging)
            preferred = broker.preferred_replica(partition, self._request.rack_id, want.fetch_offset)
            if preferred >= 0:
                return PartitionData(want.partition, 0, *_marks(partition), None, None, True, preferred=preferred)
            limit = min(want.max_bytes, budget)
            piece, aborted = None, _NONE_ABORTED
            if budget or first:
                piece = partition.read(want.fetch_offset, limit, min_one=first, committed=committed)
                if committed and log.has_aborted:
                    aborted = log.aborted_transactions(want.fetch_offset, piece)
        except ApiError as refused:
            return PartitionData(want.partition, refused.code, -1, -1, -1, None, None, True)
        except OSError:
            return PartitionData(want.partition, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1, None, None, True)
        self.partitions.append(partition)
        mark = partition.high_watermark
        if not partition.settled:  # who reads from here has seen a mark that high from the leader before
            mark = max(mark, min(want.fetch_offset, log.log_end_offset))
        stable, start = log.last_stable_offset(mark), log.log_start_offset
        return PartitionData(want.partition, 0, mark, stable, start, piece, None, committed, transactions=aborted)

    def try_complete(self) -> None:
        rows, ready = self.collect()
        if ready:
            self._finish(rows)

    def expire(self) -> None:
        self._finish(self.collect()[0])

    def _finish(self, rows: list[tuple[bytes, PartitionData]]) -> None:
        self.done = True
        if self.future is None or self.future.done():
            return
        answer = self.reply(rows)
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(self._pass_on)
        else:
            self.future.set_result(answer)

    def _pass_on(self, answer: asyncio.Future[list[Any]]) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(answer.result())

    def forget(self, _: object) -> None:
        """After the answer, or when the client went away: no partition holds on to this wait."""
        self.done = True
        for partition in self.partitions:
            partition.waiters.discard(self)

    def reply(self, rows: list[tuple[bytes, PartitionData]]) -> Any:
        """The answer's buffers, or a future of them if the disk must be waited for."""
        ready, cold = [], []
        for key, row in rows:
            piece = row.records
            if piece is None:
                ready.append((key, row))
                continue
            try:
                records = loaded(piece, self.sends_files) if piece.length else _NOTHING
            except ApiError as refused:
                ready.append((key, _unreadable(row, refused.code)))
                continue
            except OSError:
                ready.append((key, _unreadable(row)))
                continue
            if records is None:
                cold.append(piece)
            else:
                ready.append((key, row._replace(records=records)))
        if not cold:
            return self.encode(ready)
        return self._path.cold.then(cold, lambda: self.encode([(key, self._read(row)) for key, row in rows]))

    def _read(self, row: PartitionData) -> PartitionData:
        """The row with its records as they will be sent, whatever that takes."""
        piece = row.records
        if not isinstance(piece, Slice):
            return row
        try:
            if self.sends_files and piece.length >= _SENDFILE_BYTES:
                piece.settle()
                return row
            return row._replace(records=piece.read() if piece.length else _NOTHING)
        except ApiError as refused:
            return _unreadable(row, refused.code)
        except OSError:
            return _unreadable(row)

    def encode(self, rows: list[tuple[bytes, PartitionData]]) -> list[Any]:
        """The answer's buffers; an incremental one leaves out what has no news."""
        session, topics, served, hinted = self._session, [], [], set()
        last: bytes | None = None
        for key, row in rows:
            if row.records:
                self._path.broker.metrics.bytes_out += len(row.records)
                served.append((key, row.partition))
            if row.leader is not None:
                hinted.add(row.leader[0])
            if session is not None and not session.news(key, row) and not self._full:
                continue
            if key != last:
                topics.append((key, [row]))
                last = key
            else:
                topics[-1][1].append(row)
        session_id = 0
        if session is not None:
            session.rotate(served)
            session_id = session.session_id
        version = self._version
        tags = b"\x00"
        if hinted and version >= 16:
            tags = node_endpoints(self._path.broker.endpoints(hinted, self._identity))
        return encode_fetch_answer(version, self._correlation_id, session_id, 0, topics, tags)


def _marks(partition: Partition) -> tuple[int, int, int]:
    """(high watermark, last stable offset, log start offset)."""
    log = partition.log
    return partition.high_watermark, log.last_stable_offset(partition.high_watermark), log.log_start_offset


def _unreadable(row: PartitionData, code: int = ErrorCode.KAFKA_STORAGE_ERROR) -> PartitionData:
    return PartitionData(row.partition, code, -1, -1, -1, None, None, True)

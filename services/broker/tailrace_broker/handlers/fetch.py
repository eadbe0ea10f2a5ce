"""Fetch v4-18. v7: sessions (KIP-227). v9: leader epochs (KIP-320). v12: flexible. v13: topic ids. v16: leader hints.

v12: the epoch of the last record read; where our history differs, diverging_epoch says from where (KIP-595).

Whole batches, from the one that holds the offset; at least one even above max_bytes; an empty success at the timeout.
read_committed reads to the last stable offset and is told of the aborted transactions in what it reads. Any replica
serves consumers (KIP-392); a leader with a rack-aware selector sends them to one in their rack. A new leader has no
news before its high watermark has reached its epoch's start (KIP-207). Followers: follower_fetch.py.

Large pieces of a log leave as slices, which the connection sends from the page cache uncopied. What is not in the page
cache is brought there by threads first (cold_reads/).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tailrace.errors import ApiError, ErrorCode
from tailrace.log.read import NotCached, Scan, Slice
from tailrace.net.context import Identity
from tailrace.net.large import LARGE_BYTES, Large
from tailrace.net.pieces import ROWS_AT_ONCE, in_turns, others_first
from tailrace.wire.fetch import (
    Fetch,
    FetchPartition,
    PartitionData,
    decode_fetch,
    encode_fetch_answer,
    fetch_once,
    node_endpoints,
)
from tailrace.wire.fetch_heads import FetchHead, FetchHeads
from tailrace_broker.cold_reads.readers import loaded, scans
from tailrace_broker.cold_reads.reads import LAST_BYTES, MOST_TRIES, ColdReads, Job
from tailrace_broker.fetch.sessions import FINAL_EPOCH, FetchSessions, Session, asked
from tailrace_broker.handlers.follower_fetch import FollowerFetch
from tailrace_broker.replication.follower import diverges

if TYPE_CHECKING:
    from tailrace_broker.broker import Broker
    from tailrace_broker.partitions.partition import Partition

_NOTHING = b""
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
        self.followers = FollowerFetch(broker, cold)
        self._heads = FetchHeads()
        self._large = Large()

    def handle(self, connection: Any, version: int, correlation_id: int, body: memoryview) -> Any:
        """The answer's buffers at once, or a future of them when it must wait."""
        known = self._heads.read(version, body)
        if known is not None:
            answer = self._at_once(*known, correlation_id, connection)
            if type(answer) is Slice:
                if scans(answer, connection.state):
                    return self._when_there(answer, known, version, correlation_id, body, connection)
            elif answer is not None:
                return answer
        return self._in_full(connection, version, correlation_id, body, known is None)

    def _when_there(
        self,
        missing: Slice,
        known: tuple[FetchHead, int],
        version: int,
        correlation_id: int,
        body: memoryview,
        connection: Any,
    ) -> asyncio.Future[Any]:
        """A future of the answer, which is tried again as it was when the disk has answered; else all the long way."""
        loop = asyncio.get_running_loop()
        there: asyncio.Future[OSError | None] = loop.create_future()

        async def again() -> Any:
            error = await there
            answer = self._at_once(*known, correlation_id, connection) if error is None else None
            if answer is None or type(answer) is Slice:
                answer = self._in_full(connection, version, correlation_id, memoryview(kept), False)
            return await answer if isinstance(answer, asyncio.Future) else answer

        def arrived(error: OSError | None) -> None:
            if not there.done():
                there.set_result(error)

        kept = bytes(body)
        job = self.cold.start(connection.state, [missing], arrived)
        answered = loop.create_task(again())
        answered.add_done_callback(job.cancel)
        return answered

    def _in_full(self, connection: Any, version: int, correlation_id: int, body: memoryview, strange: bool) -> Any:
        """As handle, of any request; a strange one is tried at once, and perhaps recognised from now on.

        One of very many rows is decoded by a thread.
        """
        if len(body) < LARGE_BYTES:
            return self._decoded(connection, version, correlation_id, body, decode_fetch(version, body), strange)
        kept = bytes(body)

        async def decode() -> Any:
            request = await self._large.run(lambda: fetch_once(decode_fetch(version, memoryview(kept))))
            answer = self._decoded(connection, version, correlation_id, memoryview(kept), request, strange)
            return await answer if isinstance(answer, asyncio.Future) else answer

        return asyncio.get_running_loop().create_task(decode())

    def _decoded(
        self, connection: Any, version: int, correlation_id: int, body: memoryview, request: Fetch, strange: bool
    ) -> Any:
        broker = self.broker
        if request.replica_id >= 0:
            return self.followers.handle(connection, version, correlation_id, request)
        if strange and asks_for_one(request):
            head = self._heads.learn(version, body, request)
            answer = self._at_once(head, request.topics[0][1][0].fetch_offset, correlation_id, connection)
            if answer is not None and type(answer) is not Slice:
                return answer
        try:
            session, full = self.sessions.open(request, broker.monotonic_ms(), broker.new_session_id())
        except ApiError as refused:
            return encode_fetch_answer(version, correlation_id, 0, refused.code, [])
        wait = FetchWait(self, version, correlation_id, connection.identity, request, session, full)
        wait.sends_files, wait.state = connection.sends_files, connection.state
        return wait.begin()

    def _at_once(self, head: FetchHead, offset: int, correlation_id: int, connection: Any) -> list[Any] | Slice | None:
        """One partition, no session, enough data: nothing that could wait is built. None for all else.

        A slice where that is what the disk would have to be waited for.
        """
        broker, leader_epoch = self.broker, head.leader_epoch
        partition: Partition | None = head.place
        if partition is None or partition.leader != broker.node_id:
            partition, _ = broker.leading(head.key, head.index, by_id=head.by_id)
            head.place = partition
        if partition is None or head.last_epoch >= 0 or (leader_epoch >= 0 and leader_epoch != partition.leader_epoch):
            return None
        if partition.leading is not None and (head.rack_id or not partition.settled):
            return None
        limit = min(head.max_bytes, broker.config.fetch_max_bytes)
        try:
            log, mark = partition.log, partition.high_watermark
            if log.producers.transactions.first_unstable_offset < mark or (head.committed and log.has_aborted):
                return None  # the long way knows of transactions
            piece = partition.read(offset, limit, min_one=True, wait=False)
            if piece.length < head.min_bytes:
                return None
            records = loaded(piece, connection.sends_files, connection.state)
        except (ApiError, OSError):
            return None  # the long way says why
        except NotCached as cold:
            return cold.piece if type(cold.piece) is Slice else None  # no walk
        if records is None:
            return piece
        broker.metrics.bytes_out += len(records)
        return head.answer(correlation_id, mark, log.log_start_offset, records)


class _Place(NamedTuple):
    """What was found of one partition that could be read."""

    key: bytes
    want: FetchPartition
    size_bytes: int
    high_watermark: int


_Rows: TypeAlias = list[tuple[bytes, PartitionData]]
_Then: TypeAlias = Callable[[_Rows, bool], None]
_Steps: TypeAlias = Generator[None, None, tuple[_Rows, bool]]
_OPENED = 60  # rows that take as long as opening a log


class FetchWait:
    """One fetch, parked until it has min_bytes, an error, or waited long enough; or until the disk has answered."""

    __slots__ = (
        "_cold",
        "_correlation_id",
        "_enough",
        "_expired",
        "_failed",
        "_full",
        "_identity",
        "_job",
        "_looking",
        "_parked",
        "_path",
        "_places",
        "_request",
        "_session",
        "_tries",
        "_version",
        "_wants",
        "_work",
        "done",
        "future",
        "sends_files",
        "state",
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
        # Of a partition that is named twice the last row counts, as in Kafka.
        self._wants = list({(key, want.partition): (key, want) for key, want in asked(request, session)}.values())
        self._places: dict[Partition, _Place] = {}
        self._enough = request.min_bytes
        self._looking: asyncio.Task[None] | None = None
        self.future: asyncio.Future[list[Any]] | None = None
        self.sends_files = False
        self.state: dict[str, Any] = {}  # the connection's
        self.done = False
        self._cold: list[Slice | Scan] = []  # what must come from the disk before the rows can be known
        self._job: Job | None = None  # under way on the disk
        self._tries = 0
        self._work = 0  # rows since others had their turn
        self._failed = False  # the disk did
        self._parked = False
        self._expired = False

    def begin(self) -> Any:
        """The answer's buffers, or a future of them."""
        steps = self._collecting()
        try:
            next(steps)
        except StopIteration as ended:
            rows, ready = ended.value
        else:
            self._promise()
            self._go_on(steps, self._looked)
            return self.future
        ready = ready or self._request.max_wait_ms <= 0
        answer = self._reply(rows) if ready else None
        if answer is not None:
            return answer
        future = self._promise()
        if not ready:
            self._park()
        return future

    def _promise(self) -> asyncio.Future[list[Any]]:
        self.future = asyncio.get_running_loop().create_future()
        self.future.add_done_callback(self.forget)
        return self.future

    def _park(self) -> None:
        self._parked = True
        self._path.broker.purgatory.park(self, self._places, self._request.max_wait_ms)

    def _look(self, then: _Then) -> None:
        """Looks at everything, and goes on with what that found: at once, or others have their turn meanwhile."""
        steps = self._collecting()
        try:
            next(steps)
        except StopIteration as ended:
            then(*ended.value)
        else:
            self._go_on(steps, then)

    def _go_on(self, steps: _Steps, then: _Then) -> None:
        async def look() -> None:
            await others_first()
            found = await in_turns(steps)
            self._looking = None
            if not self.done:
                then(*found)

        self._looking = asyncio.get_running_loop().create_task(look())
        self._looking.add_done_callback(self._looked_in_vain)

    def _looked_in_vain(self, looking: asyncio.Task[None]) -> None:
        """A bug ends the request, and its connection, as it would have done at once."""
        if not looking.cancelled() and (bug := looking.exception()) is not None and not self.done:
            assert self.future is not None
            self.future.set_exception(bug)

    def _looked(self, rows: _Rows, ready: bool) -> None:
        """After a look that is not the last one if it found too little."""
        if ready or self._expired or self._request.max_wait_ms <= 0:
            self._finish(rows)
            return
        if not self._parked:
            self._park()
        for partition, place in list(self._places.items()):
            partition.waiters.add(self)
            if partition.high_watermark != place.high_watermark:
                self._path.broker.purgatory.mark(partition)  # written to after it was looked at

    def _collecting(self) -> _Steps:
        """What could be answered now, with slices in place of records, and whether that is enough.

        Yields where others should have their turn: a row takes some microseconds, a log that is opened for it more.
        """
        request, last = self._request, self._tries >= MOST_TRIES
        budget, total, rows, failed = min(request.max_bytes, self._path.broker.config.fetch_max_bytes), 0, [], False
        if last:
            budget = min(budget, LAST_BYTES)
        self._cold = []
        self._work = 0
        for key, want in self._wants:
            if self._work >= ROWS_AT_ONCE:
                self._work = 0
                yield
            found = len(self._cold)
            row = self._one(key, want, max(0, budget), total == 0 and not found)
            self._work += 1
            if row.error_code or row.preferred >= 0 or row.diverging is not None:
                failed = True
            elif row.records is not None:
                size = row.records.length
                budget -= size
                total += size
            elif len(self._cold) > found:
                missing = self._cold[-1]
                budget -= missing.length if isinstance(missing, Slice) else 0
            rows.append((key, row))
        self._enough = min(request.min_bytes, 1) if last else request.min_bytes
        self._enough -= total
        return rows, failed or self._enough <= 0 or not self._wants or bool(self._cold)

    def _one(self, key: bytes, want: FetchPartition, budget: int, first: bool) -> PartitionData:
        broker = self._path.broker
        version, committed = self._version, self._request.isolation_level == _READ_COMMITTED
        find = broker.readable if version >= _ANY_REPLICA_FROM else broker.leading
        partition, code = find(key, want.partition, by_id=version >= 13)
        if partition is None:
            hint = broker.leader_hint(key, want.partition) if version >= 12 else None
            return PartitionData(want.partition, code, -1, -1, -1, None, hint if code in _MOVED else None, True)
        if partition.opened is None:
            self._work += _OPENED
        try:
            partition.check_epoch(max(-1, want.current_leader_epoch))  # here, any negative one says nothing
            if min(want.max_bytes, self._request.max_bytes) < 0:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka answers it
            if want.last_fetched_epoch > partition.leader_epoch:  # read where nobody knows of
                raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
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
                wait = self._tries >= MOST_TRIES
                piece = partition.read(want.fetch_offset, limit, min_one=first, committed=committed, wait=wait)
                if committed and log.has_aborted:
                    aborted = log.aborted_transactions(want.fetch_offset, piece)
        except ApiError as refused:
            return PartitionData(want.partition, refused.code, -1, -1, -1, None, None, True)
        except OSError:
            return _unreadable(want.partition)
        except NotCached as cold:
            if self._failed:
                return _unreadable(want.partition)
            self._cold.append(cold.piece)
        mark = partition.high_watermark
        self._places[partition] = _Place(key, want, 0 if piece is None else piece.length, mark)
        if not partition.settled:  # who reads from here has seen a mark that high from the leader before
            mark = max(mark, min(want.fetch_offset, log.log_end_offset))
        stable, start = log.last_stable_offset(mark), log.log_start_offset
        return PartitionData(want.partition, 0, mark, stable, start, piece, None, committed, transactions=aborted)

    def try_complete(self, key: Any) -> None:
        """Looks at the partition that has news alone; at all of them once that is enough for an answer."""
        if self._job is not None or self._looking is not None:
            return  # tried again when the disk has answered, or compared when all have been looked at
        place = self._places.get(key)
        if place is not None and not self._is_enough(place):
            return
        self._look(self._last_look)

    def _is_enough(self, place: _Place) -> bool:
        """Whether the partition's row is an answer now, or what it has got more makes min_bytes full."""
        budget = min(self._request.max_bytes, self._path.broker.config.fetch_max_bytes)
        row = self._one(place.key, place.want, max(0, budget), True)
        if row.error_code or row.preferred >= 0 or row.diverging is not None or row.records is None:
            return True
        self._enough -= row.records.length - place.size_bytes
        return self._enough <= 0

    def _last_look(self, rows: _Rows, ready: bool) -> None:
        self._finish(rows)

    def expire(self) -> None:
        self._expired = True
        if self._job is None and self._looking is None:
            self._look(self._last_look)

    def _finish(self, rows: list[tuple[bytes, PartitionData]]) -> None:
        if self.future is None or self.future.done():
            self.done = True
            return
        answer = self._reply(rows)
        if answer is not None:
            self.done = True
            self.future.set_result(answer)

    def _warmed(self, error: OSError | None) -> None:
        """The disk has answered: all is looked at again, as it is now."""
        self._job = None
        self._failed = error is not None
        self._look(self._looked)

    def forget(self, _: object) -> None:
        """After the answer, or when the client went away: no partition holds on to this wait."""
        self.done = True
        if self._job is not None:
            self._job.cancel()
            self._job = None
        if self._looking is not None:
            self._looking.cancel()
        for partition in self._places:
            partition.waiters.discard(self)

    def _reply(self, rows: list[tuple[bytes, PartitionData]]) -> list[Any] | None:
        """The answer's buffers; None if it comes later because the disk must be waited for."""
        ready, cold, wait = [], self._cold, self._tries >= MOST_TRIES
        for key, row in rows:
            piece = row.records
            if piece is None:
                ready.append((key, row))
                continue
            try:
                records = loaded(piece, self.sends_files, self.state, wait=wait) if piece.length else _NOTHING
            except ApiError as refused:
                ready.append((key, _unreadable(row.partition, refused.code)))
                continue
            except OSError:
                ready.append((key, _unreadable(row.partition)))
                continue
            except NotCached as missing:  # what tells whether these are sound batches
                records, piece = None, missing.piece
            if records is not None:
                ready.append((key, row._replace(records=records)))
            elif self._failed:
                ready.append((key, _unreadable(row.partition)))
            else:
                cold.append(piece)
        if not cold:
            return self.encode(ready)
        self._tries += 1
        self._job = self._path.cold.start(self.state, cold, self._warmed)
        return None

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


def asks_for_one(request: Fetch) -> bool:
    """Of one partition, without a session, and of no size that is refused."""
    if request.session_id != 0 or request.session_epoch != FINAL_EPOCH or request.forgotten:
        return False
    if len(request.topics) != 1 or len(request.topics[0][1]) != 1:
        return False
    return min(request.max_bytes, request.topics[0][1][0].max_bytes) >= 0


def _marks(partition: Partition) -> tuple[int, int, int]:
    """(high watermark, last stable offset, log start offset)."""
    log = partition.log
    return partition.high_watermark, log.last_stable_offset(partition.high_watermark), log.log_start_offset


def _unreadable(index: int, code: int = ErrorCode.KAFKA_STORAGE_ERROR) -> PartitionData:
    return PartitionData(index, code, -1, -1, -1, None, None, True)

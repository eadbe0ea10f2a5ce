"""A consumer's Fetch: what of its partitions it may read, and whether that is enough for an answer.

Whole batches, from the one that holds the offset; at least one even above max_bytes; an empty success at the timeout.
No answer waits for more than max_bytes (KafkaApis lowers min_bytes to it), which a client's quota may have lowered.
read_committed reads to the last stable offset and is told of the aborted transactions in what it reads. Any replica
serves consumers (KIP-392); a leader with a rack-aware selector sends them to one in their rack. A new leader has no
news before its high watermark has reached its epoch's start (KIP-207).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.identity import Identity
from tailrace.net.large import Large
from tailrace.net.turns import in_turns, turns
from tailrace.wire.hot.fetch import FetchPartition, PartitionData, encode_fetch_answer, node_endpoints
from tailrace_broker.fetch.delayed import AskedFetch, DelayedFetch, FetchParts
from tailrace_broker.fetch.read import Reads
from tailrace_broker.fetch.sessions import wanted
from tailrace_broker.partitions.follower import UNKNOWN_EPOCH, diverges
from tailrace_broker.partitions.partition import FetchIsolation

if TYPE_CHECKING:
    from tailrace_broker.partitions.partition import Partition

_NONE_ABORTED: Sequence[tuple[int, int]] = ()
_READ_COMMITTED = 1
_ANY_REPLICA_FROM = 11
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class _Place(NamedTuple):
    """What was found of one partition that could be read."""

    key: bytes
    want: FetchPartition
    size_bytes: int
    high_watermark: int


_Rows: TypeAlias = list[tuple[bytes, PartitionData]]
# What goes into an answer: topics with their rows, partitions with records, and leaders that rows name.
_Wanted: TypeAlias = tuple[bytes, FetchPartition]
_Told: TypeAlias = tuple[list[tuple[bytes, list[PartitionData]]], list[tuple[bytes, int]], set[int]]
_Then: TypeAlias = Callable[[_Rows, bool], None]
_Steps: TypeAlias = Generator[None, None, tuple[_Rows, bool]]
_MOST_ROWS: Final = 500  # that are looked at in one go, as long as no log has to be opened for one of them


class ConsumerFetch(DelayedFetch):
    """One fetch, parked until it has min_bytes, an error, or waited long enough; or until the disk has answered."""

    __slots__ = (
        "_enough",
        "_expired",
        "_full_up",
        "_identity",
        "_isolation",
        "_large",
        "_looking",
        "_parked",
        "_places",
        "_wants",
        "_work",
    )

    def __init__(self, parts: FetchParts, asked: AskedFetch, large: Large, once: bool) -> None:
        """large: the thread that encodes very many rows. once: no partition is named twice."""
        super().__init__(parts, asked)
        self._identity: Identity = asked.connection.session.identity
        committed = asked.request.isolation_level == _READ_COMMITTED
        self._isolation = FetchIsolation.TXN_COMMITTED if committed else FetchIsolation.HIGH_WATERMARK
        self._large = large
        wants = wanted(asked.request, asked.session)
        self._wants: list[_Wanted] | None = None  # else all rows of the request, which may be very many
        if asked.session is not None:
            self._wants = list(wants)
        elif not once:  # of a partition that is named twice the last row counts, as in Kafka
            self._wants = list({(key, want.partition): (key, want) for key, want in wants}.values())
        self._places: dict[Partition, _Place] = {}
        self._enough = asked.request.min_bytes
        self._full_up = False  # the next batch that is there is more than max_bytes leaves room for
        self._looking: asyncio.Task[None] | None = None
        self._work = 0  # rows of this look, _MOST_ROWS where a log was opened
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
            self._wait()
        return future

    def _wait(self) -> None:
        self._parked = True
        self._park(self._places)

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
            found = await in_turns(steps)
            self._looking = None
            if not self.done:
                then(*found)

        self._run(look())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._looking = asyncio.get_running_loop().create_task(work)
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
            self._wait()
        for partition, place in list(self._places.items()):
            partition.waiters.add(self)
            if partition.high_watermark != place.high_watermark:
                self._parts.purgatory.mark(partition)  # written to after it was looked at

    def _collecting(self) -> _Steps:
        """What could be answered now, with slices in place of records, and whether that is enough.

        Yields where others should have their turn: a row takes some microseconds, a log that is opened for it more.
        """
        request, rows, failed = self._request, [], False
        most_bytes = min(request.max_bytes, self._parts.config.current.fetch_max_bytes)
        reads = self._reads = self._new_reads(most_bytes)
        self._full_up, self._work = False, 0
        for key, want in wanted(request, None) if self._wants is None else self._wants:
            if self._work >= _MOST_ROWS:
                yield
            row = self._one(key, want, reads)
            self._work += 1
            if row.error_code or row.preferred >= 0 or row.diverging is not None:
                failed = True
            rows.append((key, row))
        enough = min(request.min_bytes, most_bytes)
        self._enough = (min(enough, 1) if reads.last else enough) - reads.found_bytes
        return rows, failed or self._enough <= 0 or self._full_up or not rows or bool(reads.missing)

    def _one(self, key: bytes, want: FetchPartition, reads: Reads) -> PartitionData:
        """The partition's row, with a slice in place of its records; without where those are missing."""
        topics, hints = self._parts.topics, self._parts.hints
        version, isolation = self._version, self._isolation
        committed = isolation is FetchIsolation.TXN_COMMITTED
        find = topics.readable if version >= _ANY_REPLICA_FROM else topics.leading
        partition, code = find(key, want.partition, by_id=version >= 13)
        if partition is None:
            hint = hints.leader(key, want.partition) if version >= 12 else None
            return PartitionData(want.partition, code, -1, -1, -1, None, hint if code in _MOVED else None, True)
        if partition.opened is None:
            self._work = _MOST_ROWS  # a pause may follow each row from here on
        try:
            partition.check_epoch(max(-1, want.current_leader_epoch))  # here, any negative one says nothing
            if min(want.max_bytes, self._request.max_bytes) < 0:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka answers it
            if want.last_fetched_epoch > partition.leader_epoch:  # read where nobody knows of
                raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
            log = partition.log
            if want.last_fetched_epoch != UNKNOWN_EPOCH:
                diverging = diverges(log, want.last_fetched_epoch, want.fetch_offset)
                if diverging is not None:
                    return PartitionData(want.partition, 0, *_marks(partition), None, None, True, diverging=diverging)
            if partition.leading is not None and (rack := self._request.rack_id):
                preferred = hints.preferred_replica(partition, rack, want.fetch_offset)
                if preferred >= 0:
                    return PartitionData(want.partition, 0, *_marks(partition), None, None, True, preferred=preferred)
            left, piece, aborted = reads.left_bytes, None, _NONE_ABORTED
            if left or reads.min_one:
                piece = reads.find(partition, want.fetch_offset, min(want.max_bytes, left), isolation)
            if piece is not None:
                if want.max_bytes >= left and piece.length and piece.next_offset < partition.visible_end(committed):
                    self._full_up = True
                if committed and log.segments.has_aborted:
                    aborted = log.aborted_transactions(want.fetch_offset, piece)
        except ApiError as refused:
            return PartitionData(want.partition, refused.code, -1, -1, -1, None, None, True)
        except OSError:
            return _unreadable(want.partition)
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
        most_bytes = min(self._request.max_bytes, self._parts.config.current.fetch_max_bytes)
        row = self._one(place.key, place.want, self._new_reads(most_bytes))
        if row.error_code or row.preferred >= 0 or row.diverging is not None or row.records is None:
            return True
        self._enough -= row.records.length - place.size_bytes
        return self._enough <= 0 or self._full_up

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
        if len(rows) > _MOST_ROWS:
            self._run(self._finish_in_turns(rows))
            return
        self._answer(self._reply(rows))

    async def _finish_in_turns(self, rows: list[tuple[bytes, PartitionData]]) -> None:
        """As _finish, others having their turn; a thread encodes."""
        ready: _Rows = []
        told: _Told = ([], [], set())
        async for row in turns(rows):
            self._load([row], ready)
        if self._reads.missing:
            self._looking = None
            self._ask_disk()
            return
        async for row in turns(ready):
            self._tell([row], told)
        self._answer(await self._large.run(partial(encode_fetch_answer, *self._fields(told))))

    def _answer(self, answer: list[Any] | None) -> None:
        if answer is not None and self.future is not None and not self.future.done():
            self.done = True
            self.future.set_result(answer)

    def look_again(self) -> None:
        self._look(self._looked)

    def leave(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for partition in self._places:
            partition.waiters.discard(self)

    def _reply(self, rows: list[tuple[bytes, PartitionData]]) -> list[Any] | None:
        """The answer's buffers; None if it comes later because the disk must be waited for."""
        ready: _Rows = []
        self._load(rows, ready)
        if not self._reads.missing:
            return self.encode(ready)
        self._ask_disk()
        return None

    def _load(self, rows: _Rows, ready: _Rows) -> None:
        """Puts each row with its records into `ready`; those whose records are missing are left out."""
        load = self._reads.load
        for key, row in rows:
            if row.records is None:
                ready.append((key, row))
                continue
            try:
                records = load(row.records)
            except ApiError as refused:
                ready.append((key, _unreadable(row.partition, refused.code)))
            except OSError:
                ready.append((key, _unreadable(row.partition)))
            else:
                if records is not None:
                    ready.append((key, row._replace(records=records)))

    def encode(self, rows: list[tuple[bytes, PartitionData]]) -> list[Any]:
        """The answer's buffers; an incremental one leaves out what has no news."""
        told: _Told = ([], [], set())
        self._tell(rows, told)
        return encode_fetch_answer(*self._fields(told))

    def _tell(self, rows: _Rows, told: _Told) -> None:
        session = self._session
        topics, served, hinted = told
        last = topics[-1][0] if topics else None
        for key, row in rows:
            if row.records:
                self._parts.metrics.bytes_out += len(row.records)
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

    def _fields(self, told: _Told) -> tuple[int, int, int, int, list[tuple[bytes, list[PartitionData]]], bytes]:
        """What encode_fetch_answer is given."""
        session = self._session
        topics, served, hinted = told
        session_id = 0
        if session is not None:
            session.rotate(served)
            session_id = session.session_id
        version = self._version
        tags = b"\x00"
        if hinted and version >= 16:
            tags = node_endpoints(self._parts.hints.endpoints(hinted, self._identity))
        return version, self._correlation_id, session_id, 0, topics, tags


def _marks(partition: Partition) -> tuple[int, int, int]:
    """(high watermark, last stable offset, log start offset)."""
    log = partition.log
    return partition.high_watermark, log.last_stable_offset(partition.high_watermark), log.log_start_offset


def _unreadable(index: int, code: int = ErrorCode.KAFKA_STORAGE_ERROR) -> PartitionData:
    return PartitionData(index, code, -1, -1, -1, None, None, True)

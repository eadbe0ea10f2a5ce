"""Fetch v4-18: decode, find the session, look at each partition, answer or wait. Read this first.

v7: sessions (KIP-227). v9: leader epochs (KIP-320). v12: flexible, with the epoch of the last record read. v13: topic
ids (KIP-516). v16: leader hints (KIP-951). Whole batches, from the one that holds the offset; at least one even above
max_bytes; an empty success at the timeout.

    PlainFetch.handle     decode (many_rows.py those of very many partitions)
    PlainFetch.serve      open the session (sessions.py); a follower's fetch is another (follower.py)
    ConsumerFetch._look   each partition's row: why it is refused, or a slice of its log (consumer.py, read.py)
    ConsumerFetch._reply  load the records of the slices, tell the session, encode
    otherwise wait        for min_bytes, for max_wait_ms, or for what the disk has to bring (delayed.py, cold_reads/)

Large pieces of a log leave as slices, which the connection sends from the page cache uncopied. fast.py does the same
for the usual request with less work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from functools import partial
from typing import Final, TypeAlias

from tailrace.errors import ApiError, ErrorCode
from tailrace.log.read import Records
from tailrace.net.context import HotConnection
from tailrace.net.identity import Identity
from tailrace.net.large import Large
from tailrace.net.turns import in_turns
from tailrace.wire.hot.fetch import (
    Fetch,
    FetchPartition,
    PartitionData,
    decode_fetch,
    encode_fetch_answer,
    node_endpoints,
)
from tailrace.wire.pieces import Piece
from tailrace_broker.fetch.consumer import TOPIC_IDS_FROM, ConsumerRows, FetchPartitionStatus, unreadable
from tailrace_broker.fetch.delayed import AskedFetch, DelayedFetch, FetchAnswer, FetchParts
from tailrace_broker.fetch.follower import FollowerFetches
from tailrace_broker.fetch.many_rows import LARGE_FETCH_BYTES, ManyRowsFetch
from tailrace_broker.fetch.sessions import FetchSessions, wanted
from tailrace_broker.partitions.partition import Partition

_HINTS_FROM: Final = 16
_MOST_ROWS: Final = 500  # that are looked at in one go, as long as no log has to be opened for one of them

_Row: TypeAlias = tuple[bytes, PartitionData]  # of the topic with this key
_Answer: TypeAlias = tuple[int, int, int, int, list[tuple[bytes, list[PartitionData]]], bytes]
_Steps: TypeAlias = Generator[None, None, _Answer | None]  # what encode_fetch_answer is given, None if it comes later


class PlainFetch:
    """Fetch for one broker."""

    def __init__(self, parts: FetchParts, sessions: FetchSessions) -> None:
        self._parts = parts
        self._sessions = sessions
        self._followers = FollowerFetches(parts)
        self._large = Large()
        self._many_rows = ManyRowsFetch(self._large, self.serve)

    def handle(self, connection: HotConnection, version: int, correlation_id: int, body: memoryview) -> FetchAnswer:
        """The answer's buffers at once, or a future of them when it must wait."""
        if len(body) >= LARGE_FETCH_BYTES:
            return self._many_rows.handle(connection, version, correlation_id, body)
        return self.serve(connection, version, correlation_id, decode_fetch(version, body))

    def serve(
        self, connection: HotConnection, version: int, correlation_id: int, request: Fetch, *, once: bool = False
    ) -> FetchAnswer:
        """As handle, of a request that is decoded. once: it names no partition twice."""
        if request.replica_id >= 0:
            return self._followers.serve(connection, version, correlation_id, request)
        parts = self._parts
        try:
            session, full = self._sessions.open(request, parts.clock.monotonic_ms(), parts.new_session_id())
        except ApiError as refused:
            return encode_fetch_answer(version, correlation_id, 0, refused.code, [])
        asked = AskedFetch(connection, version, correlation_id, request, session, full)
        return ConsumerFetch(parts, asked, self._large, once).begin()


class ConsumerFetch(DelayedFetch):
    """One fetch: each look at its partitions ends with the answer, or with what it waits for."""

    __slots__ = ("_expired", "_identity", "_large", "_left_bytes", "_looking", "_parked", "_rows", "_wants")

    def __init__(self, parts: FetchParts, asked: AskedFetch, large: Large, once: bool) -> None:
        """large: the thread that encodes very many rows. once: no partition is named twice."""
        super().__init__(parts, asked)
        self._identity: Identity = asked.connection.session.identity
        self._large = large
        self._rows = ConsumerRows(parts, asked.version, asked.request, asked.connection.session)
        wants = wanted(asked.request, asked.session)
        self._wants: list[tuple[bytes, FetchPartition]] | None = None  # else all rows of the request: very many, maybe
        if asked.session is not None:
            self._wants = list(wants)
        elif not once:  # of a partition that is named twice the last row counts, as in Kafka
            self._wants = list({(key, want.partition): (key, want) for key, want in wants}.values())
        self._left_bytes = asked.request.min_bytes  # until they are enough for an answer
        self._looking: asyncio.Task[None] | None = None
        self._parked = self._expired = False

    def begin(self) -> FetchAnswer:
        """The answer's buffers, or a future of them."""
        answer = self._advance()
        return self._promise() if answer is None else answer

    # -- one look ----------------------------------------------------------------------------------------------------

    def _look(self, final: bool) -> _Steps:
        """Each partition's row, with a slice in place of its records, and the answer if those are enough, or `final`.

        Yields where others may have their turn: a row takes some microseconds, a log that is opened for it more.
        """
        request, rows, at_once = self._request, self._rows, False
        found: list[_Row] = []
        # No answer waits for more than max_bytes (KafkaApis lowers min_bytes to it), which a quota may have lowered.
        most_bytes = min(request.max_bytes, self._parts.config.current.fetch_max_bytes)
        reads = self._reads = self._new_reads(most_bytes)
        rows.full_up = rows.opened = False
        for key, want in self._wanted():
            if rows.opened or len(found) >= _MOST_ROWS:
                yield
            row = rows.row(key, want, reads)
            if row.error_code or row.preferred >= 0 or row.diverging is not None:
                at_once = True
            found.append((key, row))
        min_bytes = min(request.min_bytes, most_bytes)
        self._left_bytes = (min(min_bytes, 1) if reads.last else min_bytes) - reads.found_bytes
        enough = at_once or self._left_bytes <= 0 or rows.full_up or not found or bool(reads.missing)
        if enough or final or self._expired or request.max_wait_ms <= 0:
            return (yield from self._reply(found))
        self._wait_for_news()
        return None

    def _reply(self, found: list[_Row]) -> _Steps:
        """The answer with the records; None if it comes later because the disk must be waited for."""
        many, by_id, parts = len(found) > _MOST_ROWS, self._version >= TOPIC_IDS_FROM, self._parts
        ready: list[_Row] = []
        for key, row in found:
            if many:
                yield
            if row.records is None:
                ready.append((key, row))
            elif (loaded := self._loaded(row)) is not None:
                ready.append((key, loaded))
        if self._reads.missing:
            self._ask_disk()
            return None
        topics: list[tuple[bytes, list[PartitionData]]] = []
        served: list[tuple[bytes, int]] = []
        hinted: set[int] = set()
        for key, row in ready:
            if many:
                yield
            if row.records:
                parts.metrics.bytes_out += len(row.records)
                parts.topics.traffic(key, by_id=by_id).bytes_out += len(row.records)
                served.append((key, row.partition))
            if row.leader is not None:
                hinted.add(row.leader[0])
            if self._session is not None and not self._session.news(key, row) and not self._full:
                continue
            if topics and topics[-1][0] == key:
                topics[-1][1].append(row)
            else:
                topics.append((key, [row]))
        return self._answer(topics, served, hinted)

    def _loaded(self, row: PartitionData) -> PartitionData | None:
        """The row with the records of its slice; None where those are missing."""
        assert isinstance(row.records, Records)
        try:
            records = self._reads.load(row.records)
        except OSError:
            return unreadable(row.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        return None if records is None else row._replace(records=records)

    def _answer(
        self, topics: list[tuple[bytes, list[PartitionData]]], served: Iterable[tuple[bytes, int]], hinted: set[int]
    ) -> _Answer:
        session, session_id = self._session, 0
        if session is not None:
            session.rotate(served)
            session_id = session.session_id
        tags = b"\x00"
        if hinted and self._version >= _HINTS_FROM:
            tags = node_endpoints(self._parts.hints.endpoints(hinted, self._identity))
        return self._version, self._correlation_id, session_id, 0, topics, tags

    def _wanted(self) -> Iterable[tuple[bytes, FetchPartition]]:
        return wanted(self._request, None) if self._wants is None else self._wants

    # -- looks one after the other -----------------------------------------------------------------------------------

    def _advance(self, *, final: bool = False) -> list[Piece] | None:
        """Looks at everything: the answer's buffers, None if they come later. Of many rows others have their turn."""
        steps = self._look(final)
        try:
            next(steps)
        except StopIteration as ended:
            answer: _Answer | None = ended.value
            return None if answer is None else encode_fetch_answer(*answer)
        self._looking = asyncio.get_running_loop().create_task(self._look_in_turns(steps))
        self._looking.add_done_callback(self._ended)
        return None

    async def _look_in_turns(self, steps: _Steps) -> None:
        answer = await in_turns(steps)
        if answer is not None:
            self._complete(await self._large.run(partial(encode_fetch_answer, *answer)))
        self._looking = None

    def _ended(self, looking: asyncio.Task[None]) -> None:
        """A bug ends the request, and its connection, as it would have done at once."""
        if not looking.cancelled() and (bug := looking.exception()) is not None and not self.done:
            assert self.future is not None
            self.future.set_exception(bug)

    def _complete(self, answer: list[Piece] | None) -> None:
        if answer is not None and self.future is not None:
            self.done = True
            if not self.future.done():
                self.future.set_result(answer)

    # -- waiting -----------------------------------------------------------------------------------------------------

    def _wait_for_news(self) -> None:
        places = self._rows.places
        if self._parked:
            for partition in places:
                partition.waiters.add(self)
        else:
            self._parked = True
            self._park(places)
        if self._looking is not None:
            for partition, place in places.items():
                if partition.high_watermark != place.high_watermark:
                    self._parts.purgatory.mark(partition)  # written to after it was looked at

    def try_complete(self, key: Partition) -> None:
        """Looks at the partition that has news alone; at all of them once that is enough for an answer."""
        if self._job is not None or self._looking is not None:
            return  # tried again when the disk has answered, or compared when all have been looked at
        place = self._rows.places.get(key)
        if place is None or self._is_enough(place):
            self._complete(self._advance(final=True))

    def _is_enough(self, place: FetchPartitionStatus) -> bool:
        """Whether the partition's row is an answer now, or what it has got more makes min_bytes full."""
        most_bytes = min(self._request.max_bytes, self._parts.config.current.fetch_max_bytes)
        row = self._rows.row(place.key, place.want, self._new_reads(most_bytes))
        if row.error_code or row.preferred >= 0 or row.diverging is not None or row.records is None:
            return True
        self._left_bytes -= len(row.records) - place.size_bytes
        return self._left_bytes <= 0 or self._rows.full_up

    def expire(self) -> None:
        self._expired = True
        if self._job is None and self._looking is None:
            self._complete(self._advance(final=True))

    def look_again(self) -> None:
        self._complete(self._advance())

    def leave(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for partition in self._rows.places:
            partition.waiters.discard(self)

"""Fetch with less work, for the usual request: one partition, no session, and enough data there for an answer at once.

plain.py has the rules; whatever is not as usual, and everything with broker.fast.path=false, goes through it.
tests/unit/broker/produce/test_fast.py holds the two to the same answers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tailrace.errors import ApiError
from tailrace.log.read import NeedsPages, Records
from tailrace.net.context import HotConnection
from tailrace.wire.hot.fetch import Fetch, decode_fetch
from tailrace.wire.hot.fetch_heads import FetchHead, FetchHeads
from tailrace.wire.pieces import Piece
from tailrace_broker.cold_reads.memory import IN_MEMORY
from tailrace_broker.cold_reads.readers import loaded, scans
from tailrace_broker.fetch.delayed import FetchAnswer, FetchParts
from tailrace_broker.fetch.many_rows import LARGE_FETCH_BYTES
from tailrace_broker.fetch.plain import PlainFetch
from tailrace_broker.fetch.sessions import FINAL_EPOCH

if TYPE_CHECKING:
    from tailrace_broker.partitions.partition import Partition


class FastFetch:
    """In front of a PlainFetch."""

    def __init__(self, parts: FetchParts, plain: PlainFetch) -> None:
        self._topics = parts.topics
        self._config = parts.config
        self._metrics = parts.metrics
        self._cold_reads = parts.cold_reads
        self._metadata = parts.rights.metadata
        self._plain = plain
        self._heads = FetchHeads()

    def handle(self, connection: HotConnection, version: int, correlation_id: int, body: memoryview) -> FetchAnswer:
        """As PlainFetch.handle."""
        known = self._heads.read(version, body)
        if known is None:
            return self._learn(connection, version, correlation_id, body)
        session = connection.session
        if session.restricted and (
            session.grants.rules is not self._metadata.image.acls
            or (known[0].by_id, known[0].key) not in session.grants.read
        ):
            return self._plain.handle(connection, version, correlation_id, body)
        answer = self._at_once(*known, correlation_id, connection)
        if isinstance(answer, NeedsPages):
            if scans(answer.slice, connection.state):
                return self._when_there(answer, known, version, correlation_id, body, connection)
        elif answer is not None:
            return answer
        return self._plain.handle(connection, version, correlation_id, body)

    def _learn(self, connection: HotConnection, version: int, correlation_id: int, body: memoryview) -> FetchAnswer:
        """Of a head that was not seen before: tried at once, and recognised from now on, if it is a usual one."""
        if len(body) >= LARGE_FETCH_BYTES:
            return self._plain.handle(connection, version, correlation_id, body)
        request = decode_fetch(version, body)
        if request.replica_id < 0 and asks_for_one(request):
            head = self._heads.learn(version, body, request)
            if connection.session.restricted:  # the plain way asks whether it may read the topic
                return self._plain.serve(connection, version, correlation_id, request)
            answer = self._at_once(head, request.topics[0][1][0].fetch_offset, correlation_id, connection)
            if answer is not None and not isinstance(answer, NeedsPages):
                return answer
        return self._plain.serve(connection, version, correlation_id, request)

    def _when_there(
        self,
        missing: NeedsPages,
        known: tuple[FetchHead, int],
        version: int,
        correlation_id: int,
        body: memoryview,
        connection: HotConnection,
    ) -> asyncio.Future[list[Piece]]:
        """A future of the answer, which is tried again as it was when the disk has answered; else the plain way."""
        loop = asyncio.get_running_loop()
        there: asyncio.Future[OSError | None] = loop.create_future()

        async def again() -> list[Piece]:
            error = await there
            answer = self._at_once(*known, correlation_id, connection) if error is None else None
            if answer is not None and not isinstance(answer, NeedsPages):
                return answer
            plain = self._plain.handle(connection, version, correlation_id, memoryview(kept))
            return await plain if isinstance(plain, asyncio.Future) else plain

        def arrived(error: OSError | None) -> None:
            if not there.done():
                there.set_result(error)

        kept = bytes(body)
        job = self._cold_reads.start(connection.state, [missing], arrived)
        answered = loop.create_task(again())
        answered.add_done_callback(job.cancel)
        return answered

    def _at_once(
        self, head: FetchHead, offset: int, correlation_id: int, connection: HotConnection
    ) -> list[Piece] | NeedsPages | None:
        """One partition, no session, enough data: nothing that could wait is built. None for all else.

        NeedsPages where those are all that the answer needs.
        """
        topics, leader_epoch = self._topics, head.leader_epoch
        partition: Partition | None = head.place
        if partition is None or partition.leader != topics.node_id:
            partition, _ = topics.leading(head.key, head.index, by_id=head.by_id)
            head.place = partition
        if partition is None or head.last_epoch >= 0 or (leader_epoch >= 0 and leader_epoch != partition.leader_epoch):
            return None
        if partition.leading is not None and (head.rack_id or not partition.settled):
            return None
        limit = min(head.max_bytes, self._config.current.fetch_max_bytes)
        try:
            log, mark = partition.log, partition.high_watermark
            if log.producers.transactions.first_unstable_offset < mark or (head.committed and log.segments.has_aborted):
                return None  # the plain way knows of transactions
            found = partition.read(offset, limit, min_one=True, mode=IN_MEMORY)
            if type(found) is not Records:
                return found if type(found) is NeedsPages else None  # no scan
            if found.length < head.min_bytes:
                return None
            records = loaded(found, connection.sends_files, connection.state)
        except (ApiError, OSError):
            return None  # the plain way says why
        if records is None:
            return NeedsPages(found, found.closed)
        self._metrics.bytes_out += len(records)
        topics.traffic(head.key, by_id=head.by_id).bytes_out += len(records)
        return head.answer(correlation_id, mark, log.log_start_offset, records)


def asks_for_one(request: Fetch) -> bool:
    """Of one partition, without a session, and of no size that is refused."""
    if request.session_id != 0 or request.session_epoch != FINAL_EPOCH or request.forgotten:
        return False
    if len(request.topics) != 1 or len(request.topics[0][1]) != 1:
        return False
    return min(request.max_bytes, request.topics[0][1][0].max_bytes) >= 0

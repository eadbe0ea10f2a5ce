"""Produce of very many partitions: a thread decodes and encodes it; it is appended in pieces, and others have a turn.

Each piece goes the way of plain.py as a request of its own; what becomes of its rows is kept, and all of them make one
answer. The next request of the connection waits for that, so that its batches keep their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tailrace.net.garbage_collection import COLLECTIONS
from tailrace.net.large import Large
from tailrace.net.pieces import ROWS_AT_ONCE, others_first
from tailrace.wire.hot.produce import Produce, ProduceTopic, decode_produce
from tailrace_broker.produce import answers
from tailrace_broker.produce.plain import PlainProduce
from tailrace_broker.produce.request import TOPIC_IDS_FROM, ProduceAnswer

if TYPE_CHECKING:
    from tailrace_broker.broker import Broker

# So many rows of a few microseconds take as long as a row that is refused, is appended, or has its log opened for it.
_REFUSED: Final = 4
_APPENDED: Final = 16
_OPENED: Final = 120


class ManyRowsProduce:
    """What PlainProduce leaves to it."""

    def __init__(self, broker: Broker, large: Large) -> None:
        self._broker = broker
        self._large = large
        self._pieces = PlainProduce(broker, encode=_answered)
        self._serving = set[asyncio.Task[Any]]()

    def handle(
        self, connection: Any, version: int, correlation_id: int, body: memoryview, throttle_time_ms: int = 0
    ) -> asyncio.Future[list[Any]]:
        """A future of the answer, of no bytes for acks=0."""
        kept = connection.keep(body)  # appends write into their batches
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[list[Any]] = loop.create_future()
        serving = loop.create_task(self._serve(connection, version, correlation_id, kept, answered, throttle_time_ms))
        self._serving.add(serving)
        serving.add_done_callback(partial(self._ended, answered))
        return answered

    def close(self) -> None:
        """Ends what is under way; a broker that closes answers nobody."""
        for serving in self._serving:
            serving.cancel()

    def _ended(self, answered: asyncio.Future[list[Any]], serving: asyncio.Task[list[Any]]) -> None:
        self._serving.discard(serving)
        failed = None if serving.cancelled() else serving.exception()
        if answered.done():
            return  # the client has left
        if serving.cancelled():
            answered.cancel()
        elif failed is not None:
            answered.set_exception(failed)
        else:
            answered.set_result(serving.result())

    async def _serve(
        self,
        connection: Any,
        version: int,
        correlation_id: int,
        body: memoryview,
        answered: asyncio.Future[list[Any]],
        throttle_time_ms: int,
    ) -> list[Any]:
        with COLLECTIONS.while_in_use(len(body)):
            request = await self._large.run(lambda: decode_produce(version, body))
            pieces = []
            for topics in self._split(request.topics, by_id=version >= TOPIC_IDS_FROM):
                piece = _Piece(connection)
                pieces.append(piece)
                some = Produce(request.transactional_id, request.acks, request.timeout_ms, topics)
                slot = self._pieces.serve(piece, version, correlation_id, some, throttle_time_ms)
                self._pieces.end_of_read()
                if isinstance(slot, asyncio.Future):  # a thread looks into its batches
                    await slot
                await others_first()
                if request.acks and answered.done():  # the client has left; with acks=0 it may have, as in Kafka
                    return []
            if not request.acks:
                return []
            return [await self._encode(connection, version, correlation_id, pieces)]

    def _split(self, topics: list[ProduceTopic], *, by_id: bool) -> Iterator[list[ProduceTopic]]:
        """Takes the rows out of the request, so many at once as others can wait for."""
        piece: list[ProduceTopic] = []
        work = 0
        topics.reverse()
        while topics:
            key, rows = topics.pop()
            taken = list[Any]()
            piece.append(ProduceTopic(key, taken))
            work += 1
            rows.reverse()
            while rows:
                if work >= ROWS_AT_ONCE:
                    yield piece
                    taken, work = [], 0
                    piece = [ProduceTopic(key, taken)]
                row = rows.pop()
                taken.append(row)
                work += self._work(key, row.partition, by_id=by_id)
            if work >= ROWS_AT_ONCE:
                yield piece
                piece, work = [], 0
        if piece:
            yield piece

    def _work(self, key: bytes, index: int, *, by_id: bool) -> int:
        partition, _ = self._broker.leading(key, index, by_id=by_id)
        if partition is None:
            return _REFUSED
        return _APPENDED if partition.opened is not None else _OPENED

    async def _encode(self, connection: Any, version: int, correlation_id: int, pieces: list[_Piece]) -> Any:
        """The answer's frame, once every append of every piece has its outcome."""
        topics, hinted, throttle_time_ms = list[Any](), set[int](), 0
        last: bytes | None = None
        pieces.reverse()
        while pieces:
            answer = await pieces.pop().answered
            throttle_time_ms = max(throttle_time_ms, answer.throttle_time_ms)
            for key, topic in answers.rows(self._broker, connection, answer, hinted):
                if key == last:  # the piece before ended within it
                    topics[-1].partition_responses += topic.partition_responses
                else:
                    topics.append(topic)
                last = key
            await others_first()
        response = answers.response_of(self._broker, connection, topics, throttle_time_ms, hinted)
        return await self._large.encode(response, version, correlation_id)


class _Piece:
    """The connection, as PlainProduce sees it while it serves some of a request's rows."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.identity = connection.identity
        self.answered: asyncio.Future[ProduceAnswer] = asyncio.get_running_loop().create_future()

    @property
    def refused_batches(self) -> Any:
        return self._connection.refused_batches

    @refused_batches.setter
    def refused_batches(self, found: Any) -> None:
        self._connection.refused_batches = found

    def mute(self, throttle_time_ms: int) -> None:
        self._connection.mute(throttle_time_ms)

    def close(self) -> None:
        self._connection.close()

    def flush(self) -> None:
        """Nothing of it leaves before the others' rows."""


def _answered(piece: _Piece, answer: ProduceAnswer) -> bytes:
    if not piece.answered.done():
        piece.answered.set_result(answer)
    return b""

"""Produce of many partitions: a thread decodes and encodes it, and the other work of the loop has its turn meanwhile.

A few rows at a time go the way of plain.py as a request of their own; what becomes of them is kept, and all of them
make one answer. The next request of the connection waits for that, so that its batches keep their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace.net.garbage_collection import COLLECTIONS
from tailrace.net.large import Large
from tailrace.net.turns import turns
from tailrace.wire.hot.produce import Produce, ProducePartition, ProduceTopic, decode_produce
from tailrace.wire.pieces import Bytes, Piece
from tailrace_broker.produce.answers import ProduceTopicResponse
from tailrace_broker.produce.plain import PlainProduce
from tailrace_broker.produce.refused_batches import RefusedBatches
from tailrace_broker.produce.request import TOPIC_IDS_FROM, ProduceAnswer, ProducerConnection

if TYPE_CHECKING:
    from tailrace_broker.produce.plain import ProduceParts

_ROWS: Final = 20  # half a millisecond; each alone costs half as much again


class ManyRowsProduce:
    """What PlainProduce leaves to it."""

    def __init__(self, parts: ProduceParts, large: Large) -> None:
        self._topics = parts.topics
        self._answers = parts.answers
        self._large = large
        self._plain = PlainProduce(parts, encode=_answered)
        self._serving = set[asyncio.Task[list[Piece]]]()

    def handle(
        self,
        connection: ProducerConnection,
        version: int,
        correlation_id: int,
        body: memoryview,
        throttle_time_ms: int = 0,
    ) -> asyncio.Future[list[Piece]]:
        """A future of the answer, of no bytes for acks=0."""
        kept = connection.keep(body)  # appends write into their batches
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[list[Piece]] = loop.create_future()
        serving = loop.create_task(self._serve(connection, version, correlation_id, kept, answered, throttle_time_ms))
        self._serving.add(serving)
        serving.add_done_callback(partial(self._ended, answered))
        return answered

    def close(self) -> None:
        """Ends what is under way; a broker that closes answers nobody."""
        for serving in self._serving:
            serving.cancel()

    def _ended(self, answered: asyncio.Future[list[Piece]], serving: asyncio.Task[list[Piece]]) -> None:
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
        connection: ProducerConnection,
        version: int,
        correlation_id: int,
        body: memoryview,
        answered: asyncio.Future[list[Piece]],
        throttle_time_ms: int,
    ) -> list[Piece]:
        with COLLECTIONS.while_in_use(len(body)):
            request = await self._large.run(lambda: decode_produce(version, body))
            served = []
            async for topic in turns(self._pieces(request.topics, by_id=version >= TOPIC_IDS_FROM)):
                piece = _Piece(connection)
                served.append(piece)
                some = Produce(request.transactional_id, request.acks, request.timeout_ms, [topic])
                slot = self._plain.serve(piece, version, correlation_id, some, throttle_time_ms)
                self._plain.end_of_read()
                if isinstance(slot, asyncio.Future):  # a thread looks into its batches
                    await slot
                if request.acks and answered.done():  # the client has left; with acks=0 it may have, as in Kafka
                    return []
            if not request.acks:
                return []
            return [await self._encode(connection, version, correlation_id, served)]

    def _pieces(self, topics: list[ProduceTopic], *, by_id: bool) -> Iterator[ProduceTopic]:
        """A few rows of a topic at a time, fewer where a log has to be opened for the last of them."""
        for key, rows in topics:
            piece: list[ProducePartition] = []
            for row in rows:
                piece.append(row)
                partition, _ = self._topics.leading(key, row.partition, by_id=by_id)
                if len(piece) == _ROWS or (partition is not None and partition.opened is None):
                    yield ProduceTopic(key, piece)
                    piece = []
            if piece or not rows:
                yield ProduceTopic(key, piece)

    async def _encode(
        self, connection: ProducerConnection, version: int, correlation_id: int, served: list[_Piece]
    ) -> Bytes:
        """The answer's frame, once every append has its outcome."""
        topics, hinted, throttle_time_ms = list[ProduceTopicResponse](), set[int](), 0
        last: bytes | None = None
        async for piece in turns(served):
            answer = await piece.answered
            throttle_time_ms = max(throttle_time_ms, answer.throttle_time_ms)
            for key, topic in self._answers.rows(connection, answer, hinted):
                if key == last:
                    topics[-1].partition_responses += topic.partition_responses
                else:
                    topics.append(topic)
                last = key
        response = self._answers.response_of(connection, topics, throttle_time_ms, hinted)
        return await self._large.encode(response, version, correlation_id)


class _Piece:
    """The connection, as PlainProduce sees it while it serves some rows of a request."""

    def __init__(self, connection: ProducerConnection) -> None:
        self._connection = connection
        self.session = connection.session
        self.answered: asyncio.Future[ProduceAnswer] = asyncio.get_running_loop().create_future()

    @property
    def refused_batches(self) -> RefusedBatches | None:
        return self._connection.refused_batches

    @refused_batches.setter
    def refused_batches(self, found: RefusedBatches | None) -> None:
        self._connection.refused_batches = found

    def mute(self, throttle_time_ms: int) -> None:
        self._connection.mute(throttle_time_ms)

    def close(self) -> None:
        self._connection.close()

    def keep(self, body: memoryview) -> memoryview:
        return self._connection.keep(body)

    def flush(self) -> None:
        """Nothing of it leaves before the others' rows."""


def _answered(piece: ProducerConnection, answer: ProduceAnswer) -> bytes:
    assert isinstance(piece, _Piece)
    if not piece.answered.done():
        piece.answered.set_result(answer)
    return b""

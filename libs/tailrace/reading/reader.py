"""A reader of one topic: asks the leaders of its partitions, all at once, and follows them when they move.

`ask` is the port to the cluster, so that a command, a service and a test use the same reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from tailrace.clock import Clock
from tailrace.errors import ApiError, ErrorCode
from tailrace.net.address import Address
from tailrace.net.client import Disconnected
from tailrace.reading.cursor import Cursor
from tailrace.reading.start import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Start, first_offset
from tailrace.records.record import Record
from tailrace.wire.apis import ApiKey
from tailrace.wire.limits import ceiling, pages
from tailrace.wire.messages import ApiMessage, FetchRequest, ListOffsetsRequest, MetadataRequest

_METADATA_VERSION: Final = 12
_LIST_OFFSETS_VERSION: Final = 7
_FETCH_VERSION: Final = 12  # the last one by topic name
_FETCH_BY_ID_VERSION: Final = 13
_FETCH_BYTES: Final = 16 * 1024 * 1024
_PARTITION_BYTES: Final = 1024 * 1024
_MOST_PARTITIONS: Final = ceiling(ApiKey.FETCH, "topics.partitions").most
_AGAIN_MS: Final = 100
_NO_POSITIONS: Final[Mapping[int, int]] = {}
NO_TOPIC_ID: Final = UUID(int=0)
# A leader moves, or a node has not heard of it yet: Metadata is asked again.
_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
# Of Metadata: the partition has no leader now.
_LATER: Final = frozenset(
    {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND, ErrorCode.REPLICA_NOT_AVAILABLE}
)
_CODES: Final = frozenset(map(int, ErrorCode))
_FAILURES: Final = (Disconnected, TimeoutError)


class AskNode(Protocol):
    """One request to one node; `at` None: any node of the bootstrap list. Raises Disconnected or TimeoutError."""

    async def __call__(self, message: ApiMessage, version: int, at: Address | None = None) -> Any: ...


class Gap(NamedTuple):
    """Offsets that a reader wanted and the log has not: retention, or a new leader, took them away."""

    partition: int
    wanted: int
    next_offset: int


class _Asked(NamedTuple):
    cursor: Cursor
    offset: int


class TopicReader:
    """Records of a topic's partitions from their cursors on.

    A partition that cannot be read for longer than `patience_ms` ends the reading with the error of its last request.
    """

    def __init__(
        self,
        ask: AskNode,
        clock: Clock,
        topic: str,
        *,
        patience_ms: float,
        committed: bool = False,
        topic_id: UUID = NO_TOPIC_ID,
        fetch_bytes: int = _FETCH_BYTES,
        on_gap: Callable[[Gap], None] = lambda gap: None,
    ) -> None:
        """committed: isolation.level read_committed.

        fetch_bytes: of one answer; the first batch of it comes whatever its size.
        topic_id: reads no records of another topic that has the name later (KIP-516); that ends the reading.
        """
        self._ask = ask
        self._clock = clock
        self._topic = topic
        self._patience_ms = patience_ms
        self._committed = committed
        self._topic_id = topic_id
        self._fetch_version = _FETCH_VERSION if topic_id == NO_TOPIC_ID else _FETCH_BY_ID_VERSION
        self._fetch_bytes = fetch_bytes
        self._on_gap = on_gap
        self._cursors: dict[int, Cursor] = {}
        self._leaders: dict[int, Address] = {}
        self._known: Collection[int] = ()  # the topic's partitions
        self._asked: dict[asyncio.Task[Any], tuple[Address, list[_Asked]]] = {}
        self._stalled_since_ms: dict[int, float] = {}
        self._stale = True

    @property
    def done(self) -> bool:
        """Whether all cursors are at their ends."""
        return all(cursor.done for cursor in self._cursors.values())

    def assign(self, cursors: Iterable[Cursor]) -> None:
        """Reads these partitions alone from now on."""
        self._cursors = {cursor.partition: cursor for cursor in cursors}
        self._stalled_since_ms.clear()
        self._stale = True

    async def find(
        self,
        start: Start,
        *,
        until: int | None = None,
        partitions: Collection[int] | None = None,
        positions: Mapping[int, int] = _NO_POSITIONS,
    ) -> list[Cursor]:
        """Cursors at the start, for all partitions or these; with ends at a timestamp (LATEST_TIMESTAMP: as of now).

        positions: where an earlier reading stood, in place of the start; one that is not in the log any more is a gap.
        Raises ApiError for an unknown partition, and ValueError for an offset that is not in the log.
        """
        await self._ask_leaders()
        wanted = sorted(self._known) if partitions is None else partitions
        earliest = await self._offsets(wanted, EARLIEST_TIMESTAMP)
        latest = await self._offsets(wanted, LATEST_TIMESTAMP)
        at = await self._offsets(wanted, start.timestamp) if start.offset is None else latest
        ends = {} if until is None else await self._offsets(wanted, until)
        found = []
        for index in wanted:
            try:
                if index in positions:
                    offset = self._inside(index, positions[index], earliest[index], latest[index])
                else:
                    offset = first_offset(start, at[index], earliest[index], latest[index])
            except ValueError as outside:
                raise ValueError(f"{self._topic}-{index}: {outside}") from None
            end = None if until is None else latest[index] if ends[index] < 0 else ends[index]
            found.append(Cursor(index, offset, end))
        return found

    async def poll(self, max_wait_ms: int) -> Iterator[tuple[int, Record]]:
        """Partition and record of what has arrived, after waiting for some at most so long at each leader.

        The cursors move as the records are taken. Raises ApiError, Disconnected or TimeoutError where the patience is
        over.
        """
        if self._stale:
            await self._refresh([index for index, cursor in self._cursors.items() if not cursor.done])
        self._send(max_wait_ms)
        if not self._asked:
            await self._clock.sleep(_AGAIN_MS)
            self._stale = not self.done
            return iter(())
        done, _ = await asyncio.wait(self._asked, return_when=asyncio.FIRST_COMPLETED)
        arrived: list[tuple[Cursor, Any]] = []
        for task in done:
            _, asked = self._asked.pop(task)
            try:
                arrived += self._answered(task.result(), asked)
            except _FAILURES as failed:
                for cursor, _ in asked:
                    self._stall(cursor.partition, failed)
        for cursor, row in [one for one in arrived if one[1].error_code == ErrorCode.OFFSET_OUT_OF_RANGE]:
            await self._out_of_range(cursor)
            arrived.remove((cursor, row))
        if self._stale:
            await self._clock.sleep(_AGAIN_MS)
        return self._records(arrived)

    async def close(self) -> None:
        """Gives up what is on its way."""
        for task in self._asked:
            task.cancel()
        await asyncio.gather(*self._asked, return_exceptions=True)
        self._asked.clear()

    def _records(self, arrived: list[tuple[Cursor, Any]]) -> Iterator[tuple[int, Record]]:
        for cursor, row in arrived:
            aborted = [(one.producer_id, one.first_offset) for one in row.aborted_transactions or ()]
            for record in cursor.take(row.records or b"", aborted if self._committed else ()):
                yield cursor.partition, record

    def _send(self, max_wait_ms: int) -> None:
        """A Fetch to each leader that has none to answer, of the cursors that are not at their ends."""
        busy = {address for address, _ in self._asked.values()}
        by_leader: dict[Address, list[_Asked]] = {}
        for index, cursor in self._cursors.items():
            leader = self._leaders.get(index)
            if leader is not None and leader not in busy and not cursor.done:
                by_leader.setdefault(leader, []).append(_Asked(cursor, cursor.offset))
        for leader, due in by_leader.items():
            asked = due[:_MOST_PARTITIONS]
            if len(asked) < len(due):  # the others have their turn with the next request
                for one in asked:
                    self._cursors[one.cursor.partition] = self._cursors.pop(one.cursor.partition)
            request = self._fetch_request(asked, max_wait_ms)
            task = asyncio.ensure_future(self._ask(request, self._fetch_version, leader))
            self._asked[task] = leader, asked

    def _fetch_request(self, asked: list[_Asked], max_wait_ms: int) -> FetchRequest:
        row = FetchRequest.FetchTopic
        part = row.FetchPartition
        partitions = [
            part(
                partition=cursor.partition,
                current_leader_epoch=-1,
                fetch_offset=offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=min(_PARTITION_BYTES, self._fetch_bytes),
            )
            for cursor, offset in asked
        ]
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation_level=int(self._committed),
            session_id=0,
            session_epoch=-1,
            topics=[row(topic=self._topic, topic_id=self._topic_id, partitions=partitions)],
            forgotten_topics_data=[],
            rack_id="",
        )

    def _answered(self, answer: Any, asked: list[_Asked]) -> Iterator[tuple[Cursor, Any]]:
        """The rows that can be used; a cursor that was assigned again meanwhile takes none. Raises ApiError."""
        if answer.error_code:
            raise self._refused(answer.error_code, asked[0].cursor.partition)
        rows = {row.partition_index: row for topic in answer.responses for row in topic.partitions}
        for cursor, offset in asked:
            row = rows.get(cursor.partition)
            if self._cursors.get(cursor.partition) is not cursor or cursor.offset != offset or row is None:
                continue
            if row.error_code in _MOVED:
                self._stall(cursor.partition, self._refused(row.error_code, cursor.partition))
            elif row.error_code and row.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise self._refused(row.error_code, cursor.partition)
            else:
                self._stalled_since_ms.pop(cursor.partition, None)
                yield cursor, row

    def _refused(self, code: int, partition: int) -> ApiError:
        return refusal(code, f"{self._topic}-{partition}")

    def _stall(self, partition: int, error: Exception) -> None:
        """Notes that a partition could not be read; raises the error where this has lasted too long."""
        now_ms = self._clock.monotonic_ms()
        self._stale = True
        if now_ms - self._stalled_since_ms.setdefault(partition, now_ms) >= self._patience_ms:
            raise error

    async def _out_of_range(self, cursor: Cursor) -> None:
        (earliest,) = (await self._offsets([cursor.partition], EARLIEST_TIMESTAMP)).values()
        (latest,) = (await self._offsets([cursor.partition], LATEST_TIMESTAMP)).values()
        cursor.offset = self._inside(cursor.partition, cursor.offset, earliest, latest)

    def _inside(self, partition: int, wanted: int, earliest: int, latest: int) -> int:
        """The nearest offset that is in the log, or is its end."""
        found = max(earliest, min(wanted, latest))
        if found != wanted:
            self._on_gap(Gap(partition, wanted, found))
        return found

    async def _refresh(self, wanted: Iterable[int]) -> None:
        """Asks for the leaders again, and notes which of the wanted partitions cannot be read now."""
        try:
            await self._ask_leaders()
        except _FAILURES as failed:
            for index in wanted:
                self._stall(index, failed)
            return
        for index in wanted:
            if index not in self._leaders:
                self._stall(index, self._refused(ErrorCode.LEADER_NOT_AVAILABLE, index))

    async def _ask_leaders(self) -> None:
        """Asks which node leads which partition. Raises ApiError for an unknown topic, Disconnected or TimeoutError."""
        row = MetadataRequest.MetadataRequestTopic(name=self._topic, topic_id=NO_TOPIC_ID)
        request = MetadataRequest(topics=[row], allow_auto_topic_creation=False)
        answer = await self._ask(request, _METADATA_VERSION)
        nodes = {node.node_id: Address(node.host, node.port) for node in answer.brokers}
        (topic,) = answer.topics
        if topic.error_code and topic.error_code not in _LATER:
            raise refusal(topic.error_code, self._topic)
        for part in topic.partitions:
            if part.error_code and part.error_code not in _LATER:
                raise self._refused(part.error_code, part.partition_index)
        self._stale = False
        self._known = {part.partition_index for part in topic.partitions}
        self._leaders = {
            part.partition_index: nodes[part.leader_id] for part in topic.partitions if part.leader_id in nodes
        }

    async def _offsets(self, partitions: Collection[int], timestamp: int) -> Mapping[int, int]:
        """ListOffsets of every one of the partitions, which waits for their leaders. Raises ApiError."""
        found: dict[int, int] = {}
        while missing := [index for index in partitions if index not in found]:
            by_leader: dict[Address, list[int]] = {}
            for index in missing:
                if index in self._leaders:
                    by_leader.setdefault(self._leaders[index], []).append(index)
                elif index not in self._known:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self._topic} has no partition {index}")
            pages_of = ((leader, list(page)) for leader, indexes in by_leader.items() for page in pages(indexes))
            for leader, indexes in pages_of:
                request = _offsets_request(self._topic, indexes, timestamp, committed=self._committed)
                try:
                    answer = await self._ask(request, _LIST_OFFSETS_VERSION, leader)
                except _FAILURES as failed:
                    self._stall(indexes[0], failed)
                    continue
                for row in (row for topic in answer.topics for row in topic.partitions):
                    if row.error_code in _MOVED:
                        self._stall(
                            row.partition_index,
                            self._refused(row.error_code, row.partition_index),
                        )
                    elif row.error_code:
                        raise self._refused(row.error_code, row.partition_index)
                    else:
                        found[row.partition_index] = row.offset
                        self._stalled_since_ms.pop(row.partition_index, None)
            if len(found) < len(partitions):
                await self._clock.sleep(_AGAIN_MS)
                await self._refresh([index for index in partitions if index not in found])
        return found


def refusal(code: int, what: str) -> ApiError:
    """A newer cluster may have codes without a name here."""
    return ApiError(ErrorCode(code) if code in _CODES else ErrorCode.UNKNOWN_SERVER_ERROR, what)


def _offsets_request(topic: str, partitions: list[int], timestamp: int, *, committed: bool) -> ListOffsetsRequest:
    row = ListOffsetsRequest.ListOffsetsTopic
    part = row.ListOffsetsPartition
    parts = [part(partition_index=index, current_leader_epoch=-1, timestamp=timestamp) for index in partitions]
    return ListOffsetsRequest(replica_id=-1, isolation_level=int(committed), topics=[row(name=topic, partitions=parts)])

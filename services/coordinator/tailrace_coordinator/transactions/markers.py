"""Sends the markers of transactions whose outcome is in the log (Kafka's TransactionMarkerChannelManager).

A marker goes to the leader of each partition; for `__consumer_offsets` to the owner of its shard. A few requests are
under way to each of them, since one partition that waits for its replicas holds up all of its request; what comes
meanwhile goes with the next. What is refused or gets no answer is sent again until it is taken, or until the shard is
not ours any more: its next owner sends them all again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from tailrace.clock import Cancellable, Clock
from tailrace.coordination.transaction_records import Status, TransactionState
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.background import spawn
from tailrace.wire import messages as m
from tailrace_coordinator.shards.partition_log import OwnedPartition
from tailrace_coordinator.transactions.decision import SendMarkers
from tailrace_coordinator.transactions.peers import AWAY, Peers
from tailrace_coordinator.transactions.state import partitions_of

_VERSION: Final = 2
_TIMEOUT_MS: Final = 30_000
_ROWS_MAX: Final = 1_000  # partitions in one request
_LANES: Final = 4  # requests under way to one destination
_RETRY_MS: Final = (20, 50, 100, 200, 500, 1_000)
# The partition has seen a later epoch of the producer, which only a later transaction has: this one was ended there.
_DONE: Final = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})

Complete = Callable[[OwnedPartition, TransactionState], Awaitable[object]]


class Sending:
    """One transaction whose markers are on their way; left: the partitions that have none yet."""

    __slots__ = ("again", "attempts", "is_caught_up", "left", "owned", "queued", "transaction", "waiting")

    def __init__(self, owned: OwnedPartition, transaction: TransactionState) -> None:
        self.owned = owned
        self.transaction = transaction
        self.left = partitions_of(transaction)
        self.queued: dict[TopicPartition, Address] = {}  # of those: what is on its way, and to whom
        self.attempts = 0
        self.is_caught_up = False  # whether the image has all that was there when the outcome was decided
        self.again: Cancellable | None = None  # the timer until what is left is sent once more
        self.waiting: list[asyncio.Event] = []  # each set once the markers are not on their way any more


Row = tuple[Sending, TopicPartition]


class MarkerSender:
    """All transactions of this coordinator that are being ended."""

    def __init__(
        self,
        peers: Peers,
        image: Callable[[], MetadataImage],
        clock: Clock,
        complete: Complete,
        catch_up: Callable[[], Awaitable[bool]],
    ) -> None:
        """complete tells the machine that a transaction is over. It raises ApiError if the shard is not loaded.

        catch_up waits for the newest image, and says whether it is there.
        """
        self._peers = peers
        self._image = image
        self._clock = clock
        self._complete = complete
        self._catch_up = catch_up
        self._sending: dict[str, Sending] = {}
        self._queues: dict[Address, list[Row]] = {}  # by destination, while requests are under way to it
        self._busy: dict[Address, set[int]] = {}  # their lanes
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: set[Cancellable] = set()

    def __len__(self) -> int:
        return len(self._sending)

    @property
    def waiting_rows(self) -> int:
        """Markers that are not in their partition yet."""
        return sum(len(sending.left) for sending in self._sending.values())

    def act(self, owned: OwnedPartition, action: SendMarkers) -> None:
        """Begins to send a transaction's markers; an earlier attempt for the same id is given up."""
        transaction = action.transaction
        earlier = self._sending.get(transaction.transactional_id)
        if earlier is not None:
            self._give_up(earlier)
        sending = self._sending[transaction.transactional_id] = Sending(owned, transaction)
        self._send(sending)

    def on_image(self, owns: Callable[[OwnedPartition], bool]) -> None:
        """Gives up what is another's by now, and sends what was on its way to a leader that is none any more.

        A host that has fallen silent would keep the markers of its partitions until the request's timeout, while others
        lead them. A marker that comes twice does no harm.
        """
        for sending in [one for one in self._sending.values() if not owns(one.owned)]:
            self._give_up(sending)
        for sending in list(self._sending.values()):
            moved = [one for one, to in sending.queued.items() if self._destination(one) not in {None, to}]
            for partition in moved:
                del sending.queued[partition]
            if moved:
                self._send(sending)

    async def ended(self, transactional_id: str, timeout_ms: float) -> None:
        """Returns when no markers of the id are on their way, or after the timeout."""
        sending = self._sending.get(transactional_id)
        if sending is None:
            return
        over = asyncio.Event()  # of this caller only: its timeout is not another's
        sending.waiting.append(over)
        timer = self._clock.call_later(timeout_ms, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()
            sending.waiting.remove(over)

    async def close(self) -> None:
        """Stops sending."""
        for timer in self._timers:
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _give_up(self, sending: Sending) -> None:
        if self._sending.get(sending.transaction.transactional_id) is sending:
            del self._sending[sending.transaction.transactional_id]
        for over in sending.waiting:
            over.set()

    def _is_current(self, sending: Sending) -> bool:
        return self._sending.get(sending.transaction.transactional_id) is sending

    # -- where to ----------------------------------------------------------------------------------------------------

    def _send(self, sending: Sending) -> None:
        """Queues what is left of a transaction; what has nobody to take it waits."""
        if not self._is_current(sending):
            return
        waits = looks = False
        for partition in sorted(sending.left - sending.queued.keys()):  # so that a seed of a simulation is one history
            topic = self._image().topic(partition[0])
            if topic is None or partition[1] >= len(topic.partitions):
                if sending.is_caught_up:
                    sending.left.discard(partition)  # it was deleted
                else:
                    looks = True
                continue
            address = self._destination(partition)
            if address is None:
                waits = True
            else:
                self._queue(address, (sending, partition))
        if not sending.left:
            spawn(self._finish(sending), self._tasks)
        elif looks:
            spawn(self._look(sending), self._tasks)
        elif waits:
            self._again(sending)

    async def _look(self, sending: Sending) -> None:
        """What is not in the image may be new: its leader has had it added to the transaction, and we hear of it last.

        Taken for deleted it would never get its marker.
        """
        sending.is_caught_up = await self._catch_up()
        self._again(sending)

    def _destination(self, partition: TopicPartition) -> Address | None:
        to = self._peers.owner if partition[0] == GROUP_METADATA_TOPIC else self._peers.leader
        return to(*partition)

    def _again(self, sending: Sending) -> None:
        """Sends what is left once more, later each time; one timer for each transaction is enough."""
        if sending.again is not None:
            return
        delay_ms = _RETRY_MS[min(sending.attempts, len(_RETRY_MS) - 1)]
        sending.attempts += 1

        def due() -> None:
            self._timers.discard(timer)
            sending.again = None
            self._send(sending)

        timer = sending.again = self._clock.call_later(delay_ms, due)
        self._timers.add(timer)

    # -- sending -----------------------------------------------------------------------------------------------------

    def _queue(self, address: Address, row: Row) -> None:
        queue, busy = self._queues.setdefault(address, []), self._busy.setdefault(address, set())
        queue.append(row)
        row[0].queued[row[1]] = address
        if len(queue) == 1 and len(busy) < _LANES:  # who takes it takes what comes in this turn of the loop, too
            lane = next(lane for lane in range(_LANES) if lane not in busy)
            busy.add(lane)
            spawn(self._drain(address, lane), self._tasks)

    async def _drain(self, address: Address, lane: int) -> None:
        """One request after the other until nothing is left for this destination."""
        queue, busy = self._queues[address], self._busy[address]
        try:
            while queue:
                rows = [row for row in queue[:_ROWS_MAX] if self._is_current(row[0]) and _is_for(address, *row)]
                del queue[:_ROWS_MAX]
                if rows:
                    await self._request(address, rows, lane)
        finally:
            busy.discard(lane)
            if not busy and not queue:
                del self._queues[address], self._busy[address]

    async def _request(self, address: Address, rows: list[Row], lane: int) -> None:
        by_sending: dict[Sending, list[TopicPartition]] = {}
        for sending, partition in rows:
            by_sending.setdefault(sending, []).append(partition)
        request = m.WriteTxnMarkersRequest(markers=[_marker(sending, some) for sending, some in by_sending.items()])
        try:
            answer = await self._peers.ask(address, request, version=_VERSION, timeout_ms=_TIMEOUT_MS, lane=lane)
        except (*AWAY, ApiError):
            answer = None
        done = {} if answer is None else {marker.producer_id: set(_done(marker)) for marker in answer.markers}
        for sending, partitions in by_sending.items():
            for partition in partitions:
                if sending.queued.get(partition) == address:
                    del sending.queued[partition]
            sending.left -= done.get(sending.transaction.producer_id, set())
            if not sending.left:
                spawn(self._finish(sending), self._tasks)
            elif self._is_current(sending) and not sending.left.isdisjoint(partitions):
                self._again(sending)

    async def _finish(self, sending: Sending) -> None:
        """All markers are in their partitions. If the shard is lost just now, whoever loads it sends them again."""
        if self._is_current(sending):
            try:
                await self._complete(sending.owned, sending.transaction)
            except ApiError:
                self._again(sending)  # too much waits for the log; or the shard is loaded, and begins again
            else:
                self._give_up(sending)


def _is_for(address: Address, sending: Sending, partition: TopicPartition) -> bool:
    return partition in sending.left and sending.queued.get(partition) == address


def _done(marker: m.WriteTxnMarkersResponse.WritableTxnMarkerResult) -> Iterator[TopicPartition]:
    for topic in marker.topics:
        for partition in topic.partitions:
            if partition.error_code in _DONE:
                yield topic.name, partition.partition_index


def _marker(sending: Sending, partitions: list[TopicPartition]) -> m.WriteTxnMarkersRequest.WritableTxnMarker:
    row = m.WriteTxnMarkersRequest.WritableTxnMarker
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    transaction = sending.transaction
    return row(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=transaction.state is Status.PREPARE_COMMIT,
        topics=[row.WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=sending.owned.shard_epoch,
        transaction_version=transaction.client_transaction_version,
    )

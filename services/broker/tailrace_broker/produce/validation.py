"""What looks into the batches of produce requests, where their topic asks for more than a batch's header says.

A few batches of a read are examined on the way. What may take long goes to a thread (validation_threads.py), and its
connection's next request waits for this one's answer, as in Kafka; what is appended beside it counts only while nobody
else leads.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tailrace.errors import ApiError, ErrorCode
from tailrace.log.limits import Examined, Limits
from tailrace.log.producers.verification import Verification
from tailrace.records.batch import HEADER_SIZE, read_header
from tailrace.wire.connection import Promised
from tailrace.wire.hot.produce import ProducePartition
from tailrace.wire.pieces import Piece
from tailrace_broker.produce.request import TOPIC_IDS_FROM, PartitionAppend, StagedRequest
from tailrace_broker.produce.validation_threads import ClientBatch, Examination

if TYPE_CHECKING:
    from tailrace.clock import Clock
    from tailrace_broker.partitions.topics import Topics
    from tailrace_broker.produce.validation_threads import Examiner

_AT_ONCE = 32  # batches of few records in one read that are looked into while others wait, 40 microseconds each
_FEW_RECORDS = 64  # so many more take as long again
_TOGETHER = 1000  # batches that a thread examines before they are appended


class ValidationInThread(NamedTuple):
    """A batch that a thread examines, and whose it is; the batch is a copy."""

    append: PartitionAppend
    key: bytes
    asked: ProducePartition
    batch: ClientBatch
    verified: Verification | None = None


class AppendedBefore(NamedTuple):
    """Of a request that waits for a thread: what is appended meanwhile counts only while nobody else leads."""

    key: bytes
    append: PartitionAppend
    leader_epoch: int


class DeferredAnswer(Promised):
    """The slot of a request whose batches a thread examines: a future, for which the connection's next one waits."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[list[Piece]] = asyncio.get_running_loop().create_future()

    @property
    def answer(self) -> list[Piece] | None:
        """What goes out, once it is there."""
        return self.future.result() if self.future.done() else None

    @answer.setter
    def answer(self, answer: list[Piece] | None) -> None:
        if not self.future.done():  # the client may have left
            self.future.set_result(answer or [])


class ProducePath(Protocol):
    """What stages and appends the batches that were examined: PlainProduce."""

    def stage_examined(
        self, request: StagedRequest, examined: list[tuple[ValidationInThread, Examined]]
    ) -> StagedRequest:
        """Puts what a thread examined of a request beside the others; the request with what the disk asks of it."""

    def append_staged(self) -> None:
        """Appends what was staged so far."""

    def end(self, request: StagedRequest) -> None:
        """The last of a request's batches were examined: appends what was staged, and answers."""


class Validation:
    """Of one PlainProduce, which stages and appends what was examined."""

    def __init__(self, topics: Topics, examiner: Examiner, clock: Clock, path: ProducePath) -> None:
        self._topics = topics
        self._examiner = examiner
        self._clock = clock
        self._path = path
        self._long: list[ValidationInThread] = []  # what of the request at hand is to be examined in a thread
        self._at_once = 0  # how many batches of few records in this read were looked into on the way

    @property
    def has_work(self) -> bool:
        """Whether the request at hand has batches that a thread must look into."""
        return bool(self._long)

    def end_of_read(self) -> None:
        """The next read may have as many looked into on the way."""
        self._at_once = 0

    def at_once(
        self,
        append: PartitionAppend,
        key: bytes,
        asked: ProducePartition,
        limits: Limits,
        verified: Verification | None = None,
    ) -> Examined | None:
        """The batch as its topic stores it; None where it is refused, or a thread has to look at it first."""
        assert asked.records is not None
        enough = self._at_once >= _AT_ONCE
        if len(asked.records) >= HEADER_SIZE:
            self._at_once += 1 + max(0, read_header(asked.records).record_count) // _FEW_RECORDS
        try:
            examined = limits.examine_at_once(asked.records, self._clock.wall_ms(), enough=enough)
        except ApiError as refused:
            append.refuse_for(refused)
            return None
        if examined is None:
            records = bytes(asked.records)  # the frame is gone by then
            self._long.append(
                ValidationInThread(
                    append, key, asked._replace(records=memoryview(records)), ClientBatch(limits, records), verified
                )
            )
        return examined

    def in_a_thread(self, request: StagedRequest) -> asyncio.Future[list[Piece]]:
        """Has a thread examine what takes long; the rest of the request is appended at the end of this read."""
        long, self._long = self._long, []
        slot = request.slot
        assert isinstance(slot, DeferredAnswer)
        early = [
            AppendedBefore(key, append, append.partition.leader_epoch)
            for key, appends in request.answer.topics
            for append in appends
            if append.partition is not None and not append.error_code
        ]
        self._begin(long, 0, early, request)
        return slot.future

    def _begin(
        self, long: list[ValidationInThread], first: int, early: list[AppendedBefore], request: StagedRequest
    ) -> None:
        """Has a thread examine some of them, from the first on that was not."""
        examiner, acks = self._examiner, request.acks
        slot = request.slot
        assert isinstance(slot, DeferredAnswer)
        batches = [one.batch for one in long[first : first + _TOGETHER]]
        examination = Examination(batches, self._clock.wall_ms())

        def leave(_: object) -> None:
            if acks or not examiner.goes_on:
                examination.stop()

        examiner.begin(examination, partial(self._examined, examination, long, first, early, request))
        slot.future.add_done_callback(leave)

    def _examined(
        self,
        examination: Examination,
        long: list[ValidationInThread],
        first: int,
        early: list[AppendedBefore],
        request: StagedRequest,
        failed: BaseException | None,
    ) -> None:
        """Stages what was examined, if this broker still leads it, and appends it; has the rest examined then."""
        slot = request.slot
        assert isinstance(slot, DeferredAnswer)
        if examination.is_stopped:
            return  # the client has left
        if failed is not None:
            if not slot.future.done():
                slot.future.set_exception(failed)
            return
        end = first + len(examination.verdicts)
        examined = []
        for one, verdict in zip(long[first:end], examination.verdicts, strict=True):
            if isinstance(verdict, ApiError):
                one.append.refuse_for(verdict)
            else:
                examined.append((one, verdict))
        request = self._path.stage_examined(request, examined)
        for one, _ in examined:
            if one.append.partition is not None and not one.append.error_code:
                early.append(AppendedBefore(one.key, one.append, one.append.partition.leader_epoch))
        if end < len(long):
            examination.verdicts.clear()
            examined.clear()
            self._path.append_staged()
            self._begin(long, end, early, request)
            return
        for key, append, leader_epoch in early:
            self._refuse_if_lost(key, append, leader_epoch, by_id=request.answer.version >= TOPIC_IDS_FROM)
        self._path.end(request)
        if not request.acks:
            slot.answer = []

    def _refuse_if_lost(self, key: bytes, append: PartitionAppend, leader_epoch: int, *, by_id: bool) -> None:
        """Where another leader, or this broker in another epoch, may have cut what was appended."""
        partition, code = self._topics.leading(key, append.partition_id, by_id=by_id)
        lost = partition is None or partition is not append.partition or partition.leader_epoch != leader_epoch
        if lost and not append.error_code:
            append.error_code = code or ErrorCode.NOT_LEADER_OR_FOLLOWER

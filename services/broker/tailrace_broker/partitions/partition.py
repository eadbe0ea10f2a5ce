"""One partition this broker has a replica of: its log, its role in replication, what is visible of it, and who waits.

All of it is I/O-free but for the log's Filesystem port, so the simulator drives the same object. With one replica the
high watermark is the log end: what is appended is committed (KIP-497 with an ISR of one).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, overload
from uuid import UUID

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import INTERNAL_TOPICS
from tailrace.log.append import LogAppendResult
from tailrace.log.log import Log
from tailrace.log.read import WAIT, Needs, ReadMode, Records, WaitingReads
from tailrace.metadata.image import PartitionImage
from tailrace.records.batch import Bytes, WritableBytes, read_header
from tailrace_broker.partitions.early_batches import EarlyBatches
from tailrace_broker.partitions.follower import diverges, truncation_offset
from tailrace_broker.partitions.leader import IsrChange, LeaderState
from tailrace_broker.partitions.node import Node
from tailrace_broker.partitions.throttle import throttled
from tailrace_broker.waiting.offset_queue import OffsetQueue
from tailrace_broker.waiting.operation import Waiter


class EndWaiters:
    """Who waits for the log to grow (followers), apart from those who wait for the high watermark."""

    __slots__ = ("waiters",)

    def __init__(self) -> None:
        self.waiters: set[Waiter] = set()


class FetchIsolation(Enum):
    """Where the log ends for a reader: a follower's, a consumer's, and a consumer's at read_committed."""

    LOG_END = 0
    HIGH_WATERMARK = 1
    TXN_COMMITTED = 2


class FetchPosition(NamedTuple):
    """Where a follower fetches: (offset, epoch of the record before it, its log start)."""

    offset: int
    last_epoch: int
    log_start_offset: int


class Fetched(NamedTuple):
    """One partition of a leader's answer, as the follower got it. records are whole batches, maybe none."""

    error_code: int
    high_watermark: int
    log_start_offset: int
    records: Bytes = b""
    diverging: tuple[int, int] | None = None


class Partition:
    """The log is opened (and recovered) at its first use, so idle partitions cost nothing.

    Three queues hold what waits for an offset: `commits` for the high watermark, `flushes` for flush.messages,
    `deletions` for the last replica to give records up.
    """

    __slots__ = (
        "_checkpointed",
        "_open_log",
        "commits",
        "deletions",
        "early",
        "flushes",
        "high_watermark",
        "index",
        "internal",
        "isr",
        "leader",
        "leader_epoch",
        "leading",
        "node",
        "offline",
        "opened",
        "partition_epoch",
        "recovering",
        "replicas",
        "shard_epoch",
        "syncing",
        "tail",
        "topic",
        "topic_id",
        "unplaced",
        "waiters",
    )

    def __init__(
        self,
        topic: str,
        topic_id: UUID,
        index: int,
        open_log: Callable[[], Log],
        node: Node | None = None,
        checkpointed: Callable[[], int] = lambda: 0,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.internal = topic in INTERNAL_TOPICS
        self.node = node or Node(-1, lambda: 0.0)
        self.leader = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()  # as the image has it
        self.offline = False  # its log dir failed (KIP-858): it neither leads nor follows until a new start
        self.unplaced = False  # offline, as its log dir is none of those here: another leader may fill it again
        self.recovering = False  # its log is checked in a thread: likewise, until that is over
        self.leading: LeaderState | None = None  # while this broker leads and there are other replicas
        self.early: EarlyBatches | None = None  # of this leadership, once there are some
        self.high_watermark = -1
        # Of the log's last barrier, where that was looked for (internal topics only); the image may know a higher one.
        self.shard_epoch = -1
        self.waiters: set[Waiter] = set()
        self.tail = EndWaiters()
        self.commits = OffsetQueue()
        self.flushes = OffsetQueue()
        self.deletions = OffsetQueue()
        # flush.messages: appended beyond it, so that nothing more counts before a flush.
        self.syncing = False
        self._open_log = open_log
        self._checkpointed = checkpointed
        self.opened: Log | None = None  # the log if something used it already

    # -- the log -----------------------------------------------------------------------------------------------------

    @property
    def log(self) -> Log:
        """The log, opened on first use. Raises OSError if the disk refuses."""
        log = self.opened
        if log is None:
            log = self.opened = self._open_log()
            self.node.changed.add(self)
            # A killed broker's tail is in the page cache: flush.messages promises the disk, whoever hears of it now.
            self.syncing = self._owes_flush(log)
            if len(self.replicas) > 1:
                self.high_watermark = min(max(self._checkpointed(), log.log_start_offset), log.log_end_offset)
            else:
                self.high_watermark = log.log_end_offset
        return log

    def take_over(self, log: Log) -> None:
        """The same records in another log dir; the last of them may not be on the disk yet."""
        self.opened = log
        self.syncing = self.syncing or self._owes_flush(log)
        self.node.changed.add(self)

    def close(self) -> None:
        """Forgets the log after it was closed or deleted; a later use opens it again."""
        self.opened = None

    # -- the role ----------------------------------------------------------------------------------------------------

    def apply(self, image: PartitionImage) -> bool:
        """Follows the image; whether leader or leader epoch changed. Raises OSError if the log cannot be opened."""
        moved = (self.leader, self.leader_epoch) != (image.leader, image.leader_epoch)
        self.replicas, self.isr = image.replicas, image.isr
        self.partition_epoch = max(self.partition_epoch, image.partition_epoch)
        self.leader, self.leader_epoch = image.leader, image.leader_epoch
        if moved:
            self.early = None
            self.shard_epoch = -1  # other leaders may have written barriers meanwhile
        if image.leader != self.node.node_id:
            self.leading = None
        elif len(image.replicas) == 1:
            self.leading = None
            if self.opened is not None:
                self.advance()
        elif moved or self.leading is None:
            self.leading = self._lead(image)
        else:
            self.leading.update(image)
            self.advance()
        return moved

    def _lead(self, image: PartitionImage) -> LeaderState:
        """The epoch begins at the log end, also before its first record (KIP-101)."""
        log = self.log
        log.note_epoch(image.leader_epoch, log.log_end_offset)
        start = log.epochs.entries()[-1][1] if log.epochs.latest == image.leader_epoch else log.log_end_offset
        self.leading = LeaderState(self.node, image, start)
        self.advance()
        return self.leading

    def go_offline(self) -> None:
        """The log dir failed: what was not synced may be lost though the kernel forgets it."""
        self.offline = True
        self.leader = -1
        self.leading = None
        self.syncing = False

    def resign(self) -> None:
        """The broker stops: nothing is appended to the log any more, from a client or from a leader."""
        self.leader = -1
        self.leading = None

    @property
    def following(self) -> bool:
        """Whether another broker leads and this one must fetch from it."""
        return self.leader >= 0 and self.leader != self.node.node_id

    @property
    def min_isr(self) -> int:
        """min.insync.replicas as the topic has it."""
        return self.log.config.min_insync_replicas

    def check_epoch(self, current_leader_epoch: int) -> None:
        """KIP-320: who comes with an older or newer epoch than ours is told which it is; -1 says nothing."""
        if current_leader_epoch != -1:
            if current_leader_epoch < self.leader_epoch:
                raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
            if current_leader_epoch > self.leader_epoch:
                raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # -- append ------------------------------------------------------------------------------------------------------

    @property
    def enough_replicas(self) -> bool:
        """Whether acks=all may be tried: the ISR has min.insync.replicas members."""
        leading = self.leading
        return leading is None or len(leading.isr) >= leading.min_isr(self.min_isr)

    def append(
        self, batches: Sequence[WritableBytes], now_ms: int, *, from_client: bool = True
    ) -> list[LogAppendResult]:
        """Appends the batches with one write. A disk error refuses them all. Alone, the high watermark follows.

        Where flush.messages is reached, `syncing` is set and the caller has the log flushed (partitions/flusher.py).
        """
        try:
            log = self.log
            answers = log.append(batches, self.leader_epoch, now_ms, from_client=from_client)
        except OSError as failed:
            refusal = LogAppendResult(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1, str(failed))
            return [refusal] * len(batches)
        self.node.changed.add(self)
        if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
            self.syncing = True
        if self.leading is None:  # as advance(), inline: half a microsecond of eight
            self.high_watermark = max(self.high_watermark, self.durable_end)
        elif self.leading.alone:
            self.advance()
        if not from_client:  # only a coordinator's markers end transactions
            log.producers.transactions.replicated(self.high_watermark)
        return answers

    def comes_early(self, batch: Bytes) -> bool:
        """Whether a batch that is out of order may only have overtaken the one before it on the way to a new leader."""
        if self.leading is None:
            return False
        if self.early is None:
            self.early = EarlyBatches(self.leading.epoch_start_offset, self.leading.since_ms)
        header = read_header(batch)
        entry = self.log.producers.entries.get(header.producer_id)
        return self.early.comes_early(entry, header, self.node.monotonic_ms())

    def advance(self) -> bool:
        """Raises the high watermark to what is committed by now; whether it moved."""
        before, leading, log = self.high_watermark, self.leading, self.log
        if leading is not None:
            end, durable = log.log_end_offset, self.durable_end
            self.high_watermark = leading.high_watermark(before, end, durable, self.min_isr)
        elif self.leader == self.node.node_id and len(self.replicas) <= 1:
            self.high_watermark = max(before, self.durable_end)
        if self.high_watermark == before:
            return False
        log.producers.transactions.replicated(self.high_watermark)
        self.node.changed.add(self)
        return True

    def settle(self) -> None:
        """The high watermark or the flushed end may have moved: completes what waited for that."""
        if self.commits and self.commits[0][0] <= self.high_watermark:  # acks=all promises min.insync.replicas copies
            enough = self.enough_replicas
            code = ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            self.commits.reach(self.high_watermark, code)
        if self.flushes:
            self.flushes.reach(self.durable_end)

    def settle_deletions(self) -> None:
        """A replica has given records up, or does not count any more."""
        if self.deletions:
            self.deletions.reach(self.low_watermark)

    def refuse_waiting(self, code: ErrorCode) -> None:
        """Nobody here can promise what waits: the leader is another, the partition is gone, or the disk failed."""
        for queue in (self.commits, self.flushes, self.deletions):
            queue.refuse(code)

    @property
    def lag(self) -> int:
        """Records that are committed and not here, as far as known; 0 for a log nobody used yet."""
        return 0 if self.opened is None else max(0, self.high_watermark - self.opened.log_end_offset)

    # -- flush.messages ----------------------------------------------------------------------------------------------

    @property
    def durable_end(self) -> int:
        """How far what is appended counts: the log end, or while a flush is owed what is on the disk."""
        log = self.log
        return log.recovery_point if self.syncing else log.log_end_offset

    def flushed(self) -> bool:
        """A flush has finished; whether another one is owed. Call advance after it."""
        log = self.log
        self.syncing = self._owes_flush(log)
        return self.syncing

    @staticmethod
    def _owes_flush(log: Log) -> bool:
        return log.log_end_offset - log.recovery_point >= log.config.flush_messages

    # -- read --------------------------------------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        """KIP-207: whether the high watermark has reached this leadership's start, so that end offsets are known."""
        leading = self.leading
        return leading is None or self.high_watermark >= leading.epoch_start_offset

    @overload
    def read(
        self, offset: int, max_bytes: int, isolation: FetchIsolation = ..., *, min_one: bool, mode: WaitingReads = ...
    ) -> Records: ...
    @overload
    def read(
        self, offset: int, max_bytes: int, isolation: FetchIsolation = ..., *, min_one: bool, mode: ReadMode
    ) -> Records | Needs: ...
    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        *,
        min_one: bool,
        mode: ReadMode = WAIT,
    ) -> Records | Needs:
        """Whole batches below where the isolation ends the log; OFFSET_OUT_OF_RANGE beyond the log.

        Between there and the log end there is nothing to read yet, which is no error.
        """
        log = self.log
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        end: int | None = self.high_watermark
        if isolation is not FetchIsolation.HIGH_WATERMARK:
            end = None if isolation is FetchIsolation.LOG_END else self.visible_end(True)
        return log.read(offset, max_bytes, end, min_one, mode)

    def visible_end(self, committed: bool) -> int:
        """What ends the log for a consumer: the last stable offset at read_committed, else the high watermark."""
        log = self.log  # opened by now, or there is no high watermark yet
        return log.last_stable_offset(self.high_watermark) if committed else self.high_watermark

    @property
    def low_watermark(self) -> int:
        """KIP-107: what no live replica has any more; of a follower that this leader has not heard nobody knows that.

        One that is fenced does not count, or nothing could be deleted while a broker is down; it hears of it later.
        """
        low = self.log.log_start_offset
        if self.leading is not None:
            for broker_id, replica in self.leading.replicas.items():
                if replica.log_start_offset < low and self.node.is_alive(broker_id):
                    low = replica.log_start_offset
        return low

    # -- the leader's side of replication ----------------------------------------------------------------------------

    def on_fetch_position(self, broker_id: int, broker_epoch: int, position: FetchPosition) -> tuple[int, int] | None:
        """A follower's fetch: takes note of how far it is, unless its log diverges: then says where, and nothing else.

        Raises ApiError NOT_LEADER_OR_FOLLOWER, UNKNOWN_LEADER_EPOCH, STALE_BROKER_EPOCH or OFFSET_OUT_OF_RANGE. Call
        advance and propose_isr after it.
        """
        leading, log = self.leading, self.log
        if leading is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if position.last_epoch > leading.leader_epoch:
            # Its log knows a later leader than us: we have not heard that we are deposed, and its records are not ours.
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the follower's log is of epoch {position.last_epoch}")
        diverging = diverges(log.epochs, log.log_end_offset, position.last_epoch, position.offset)
        if diverging is not None:
            if broker_id not in leading.replicas:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return diverging
        if not log.log_start_offset <= position.offset <= log.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        leading.fetched(broker_id, broker_epoch, position.offset, position.log_start_offset, log.log_end_offset)
        return None

    def throttled_for(self, broker_id: int) -> bool:
        """KIP-73: whether leader.replication.throttled.rate applies to what this follower reads."""
        leading = self.leading
        names = getattr(self.log.config, "leader_replication_throttled_replicas", ())
        if not names or leading is None or broker_id in leading.isr:
            return False
        return throttled(names, self.index, self.node.node_id)

    def propose_isr(self, *, shrink: bool = True) -> IsrChange | None:
        """The AlterPartition that is due, see LeaderState.propose; shrink=False looks for who may join only."""
        leading = self.leading
        if leading is None:
            return None
        return leading.propose(self.high_watermark, self.log.log_end_offset, shrink=shrink)

    def isr_answered(self, change: IsrChange, error_code: int, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """The controller's answer; the high watermark may move with the ISR (call advance).

        True if it was no verdict and the same change must be asked for again.
        """
        leading = self.leading
        if leading is None or change.leader_epoch != leading.leader_epoch:
            return False
        again = leading.answered(change, error_code, isr, partition_epoch)
        self.partition_epoch = max(self.partition_epoch, leading.partition_epoch)
        return again

    # -- the follower's side -----------------------------------------------------------------------------------------

    @property
    def throttled(self) -> bool:
        """KIP-73: whether follower.replication.throttled.rate applies to what this follower fetches."""
        names = getattr(self.log.config, "follower_replication_throttled_replicas", ())
        if not names or self.node.node_id in self.isr:
            return False
        return throttled(names, self.index, self.node.node_id)

    def position(self) -> FetchPosition:
        """What the next fetch says."""
        log = self.log
        return FetchPosition(log.log_end_offset, log.epochs.latest, log.log_start_offset)

    def fetched(self, answer: Fetched, now_ms: int) -> bool:
        """Does what the leader's answer asks for; whether the high watermark moved.

        Raises ApiError for records that are damaged or do not follow, OSError if the disk refuses. At
        OFFSET_OUT_OF_RANGE ours may begin again where the leader's does, see begins_anew.
        """
        log = self.log
        before, start = self.high_watermark, log.log_start_offset
        if answer.diverging is not None:
            self._truncate(truncation_offset(log.epochs, log.log_end_offset, *answer.diverging))
        elif answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if self.begins_anew(answer.log_start_offset):
                log.reset_to(answer.log_start_offset)
                self.high_watermark = answer.log_start_offset
        elif answer.error_code == ErrorCode.NONE:
            if len(answer.records):
                try:
                    log.append_replicated(answer.records, now_ms, self.leader_epoch)
                finally:  # what came before a damaged batch is there
                    self.syncing = self._owes_flush(log)
            # Never back: what was committed once stays so, though a new leader may not know it yet.
            self.high_watermark = max(before, min(answer.high_watermark, log.log_end_offset))
            log.producers.transactions.replicated(self.high_watermark)
            if answer.log_start_offset > log.log_start_offset:
                log.advance_log_start_offset(min(answer.log_start_offset, log.log_end_offset))
                self.high_watermark = max(self.high_watermark, log.log_start_offset)
        moved = self.high_watermark != before
        if moved or len(answer.records) or log.log_start_offset != start:
            self.node.changed.add(self)
        return moved

    def begins_anew(self, leader_start: int) -> bool:
        """Whether at OFFSET_OUT_OF_RANGE the log begins again at leader_start: the leader's log begins behind ours.

        Or it ends before ours, which holds no record: with one, the epochs say where they part.
        """
        log = self.log
        return leader_start > log.log_end_offset or (leader_start >= 0 and not log.size_bytes)

    def _truncate(self, offset: int) -> None:
        self.log.truncate_to(offset)
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)

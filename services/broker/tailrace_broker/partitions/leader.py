"""What a leader knows of its partition's replicas: who is in sync, what is committed, whom to add and drop. Pure.

KIP-497: a change of the ISR is a proposal until the controller has taken it; until then the high watermark counts
everybody who is in the old or in the proposed ISR (the maximal ISR). Under min.insync.replicas it stands still
(KIP-966).
"""

from __future__ import annotations

from typing import NamedTuple

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import PartitionImage
from tailrace_broker.partitions.node import NO_EPOCH, Node

UNKNOWN_OFFSET = -1
# The controller did not take the change and will not: what is due may be proposed again.
_TRY_ANEW = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
# Our view is old: until the image comes the proposal stays in the maximal ISR, because it may have been taken.
_AWAIT_IMAGE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)


class Replica:
    """A follower as its fetches show it. Times are monotonic milliseconds."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "end_at_fetch",
        "fetched_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, caught_up_ms: float) -> None:
        self.broker_epoch = NO_EPOCH
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.caught_up_ms = caught_up_ms
        self.fetched_ms = 0.0
        self.end_at_fetch = UNKNOWN_OFFSET

    def fetched(self, offset: int, log_start_offset: int, end_offset: int, now_ms: float) -> None:
        """A fetch from offset came while our log ended at end_offset.

        It was caught up now if it asks for the end, or at its last fetch if it has by now all that there was then.
        """
        if offset >= end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.end_at_fetch >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.end_at_fetch = end_offset
        self.fetched_ms = now_ms

    def caught_up(self, end_offset: int, now_ms: float, lag_ms: float) -> bool:
        """Whether it has everything, or had everything at most lag_ms ago (replica.lag.time.max.ms)."""
        return self.log_end_offset == end_offset or now_ms - self.caught_up_ms <= lag_ms


class IsrChange(NamedTuple):
    """What AlterPartition asks for: (broker, its epoch) of each member."""

    isr: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int


class LeaderState:
    """One leadership: from a leader epoch's start to its end."""

    __slots__ = (
        "epoch_start_offset",
        "isr",
        "leader_epoch",
        "maximal_isr",
        "node",
        "partition_epoch",
        "proposed",
        "replicas",
        "since_ms",
    )

    def __init__(self, node: Node, image: PartitionImage, epoch_start_offset: int) -> None:
        self.node = node
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self.epoch_start_offset = epoch_start_offset
        self.since_ms = node.monotonic_ms()
        self.isr = image.isr
        self.maximal_isr = frozenset(image.isr)
        self.proposed: tuple[int, ...] | None = None  # an ISR on its way to the controller
        self.replicas: dict[int, Replica] = {}
        self._assign(image)

    def _assign(self, image: PartitionImage) -> None:
        """Keeps what is known of replicas that stay; a member of the ISR counts as caught up when it appears."""
        now_ms = self.node.monotonic_ms()
        known = self.replicas
        self.replicas = {
            broker_id: known.get(broker_id) or Replica(now_ms if broker_id in image.isr else float("-inf"))
            for broker_id in image.replicas
            if broker_id != self.node.node_id
        }

    def update(self, image: PartitionImage) -> None:
        """The image has news of this leadership: a later partition epoch replaces the ISR and ends a proposal."""
        if image.partition_epoch <= self.partition_epoch:
            return
        self._take(image.isr, image.partition_epoch)
        self._assign(image)

    def _take(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        self.isr = isr
        self.partition_epoch = partition_epoch
        self.proposed = None
        self.maximal_isr = frozenset(isr)

    # -- fetches ---------------------------------------------------------------------------------------------------

    def fetched(self, broker_id: int, broker_epoch: int, offset: int, log_start_offset: int, end_offset: int) -> None:
        """A follower fetches from offset, so it has everything below.

        One that has not registered yet (NO_EPOCH) gets records, but does not count: it follows an image of its earlier
        life, and may have been promised to a later leader of which neither it nor this one has heard. A restarted
        broker of Apache Kafka registers and catches up before it fetches.
        NOT_LEADER_OR_FOLLOWER if it is no replica; STALE_BROKER_EPOCH if a later life of it was heard (KIP-903).
        """
        replica = self.replicas.get(broker_id)
        if replica is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {broker_id} has no replica of this partition")
        if broker_epoch == NO_EPOCH:
            return
        if broker_epoch < replica.broker_epoch:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} was heard with a later epoch")
        replica.broker_epoch = broker_epoch
        replica.fetched(offset, log_start_offset, end_offset, self.node.monotonic_ms())

    # -- committed -------------------------------------------------------------------------------------------------

    def min_isr(self, configured: int) -> int:
        """min.insync.replicas, at most as many as there are replicas."""
        return min(configured, len(self.replicas) + 1)

    @property
    def alone(self) -> bool:
        """Whether nobody but the leader is needed to commit."""
        return len(self.maximal_isr) == 1

    def high_watermark(self, present: int, end_offset: int, durable_end: int, configured_min_isr: int) -> int:
        """The offset below which everybody in the maximal ISR, and who is about to join it, has all; never lower.

        durable_end is how far the leader itself has what it promises: the log end, or what is synced of it.
        """
        if len(self.isr) < self.min_isr(configured_min_isr):
            return present
        mark = durable_end
        for broker_id, replica in self.replicas.items():
            if replica.log_end_offset < mark and (broker_id in self.maximal_isr or self._joins(broker_id, end_offset)):
                mark = replica.log_end_offset
        return max(mark, present)

    def _joins(self, broker_id: int, end_offset: int) -> bool:
        node, replica = self.node, self.replicas[broker_id]
        if not replica.caught_up(end_offset, node.monotonic_ms(), node.replica_lag_time_max_ms):
            return False
        return node.may_join(broker_id, replica.broker_epoch)

    # -- the ISR ---------------------------------------------------------------------------------------------------

    def propose(self, high_watermark: int, end_offset: int, *, shrink: bool = True) -> IsrChange | None:
        """The change of the ISR that is due, None if none is or one is on its way. Counts as proposed from here on."""
        if self.proposed is not None:
            return None
        isr = self._joined(high_watermark) or (self._shrunk(end_offset) if shrink else None)
        if isr is None:
            return None
        self.proposed = isr
        self.maximal_isr = frozenset(self.isr) | frozenset(isr)
        return self._change(isr)

    def _change(self, isr: tuple[int, ...]) -> IsrChange:
        epochs = {broker_id: replica.broker_epoch for broker_id, replica in self.replicas.items()}
        epochs[self.node.node_id] = self.node.broker_epoch
        return IsrChange(
            tuple((member, epochs.get(member, NO_EPOCH)) for member in isr), self.leader_epoch, self.partition_epoch
        )

    def _joined(self, high_watermark: int) -> tuple[int, ...] | None:
        """The ISR with everybody who has all up to the high watermark and this epoch's start; None if nobody joins."""
        if len(self.isr) > len(self.replicas):
            return None
        wanted = max(high_watermark, self.epoch_start_offset)
        joining = tuple(
            broker_id
            for broker_id, replica in self.replicas.items()
            if broker_id not in self.isr
            and replica.log_end_offset >= wanted
            and self.node.may_join(broker_id, replica.broker_epoch)
        )
        return self.isr + joining if joining else None

    def _shrunk(self, end_offset: int) -> tuple[int, ...] | None:
        """The ISR without those who have not been caught up for replica.lag.time.max.ms; None if all have."""
        now_ms, lag_ms = self.node.monotonic_ms(), self.node.replica_lag_time_max_ms
        staying = tuple(
            member
            for member in self.isr
            if member not in self.replicas or self.replicas[member].caught_up(end_offset, now_ms, lag_ms)
        )
        return staying if len(staying) < len(self.isr) else None

    def answered(self, change: IsrChange, error_code: int, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """The controller's answer to a change; whether the same change must be asked for again.

        An answer that is older than what the image said meanwhile changes nothing. After an error that is no verdict (a
        controller that is none any more, say) the change may have been taken: it stays in the maximal ISR.
        """
        if self.proposed is None or change.partition_epoch != self.partition_epoch:
            return False
        if error_code == ErrorCode.NONE:
            if partition_epoch >= self.partition_epoch:  # equal: the ISR was what we proposed already
                self._take(isr, partition_epoch)
            return False
        if error_code in _TRY_ANEW:
            self._take(self.isr, self.partition_epoch)
            return False
        return error_code not in _AWAIT_IMAGE

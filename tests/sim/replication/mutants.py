"""The code broken on purpose, one rule at a time: the simulator must find each within a few seeds.

A mutant replaces attributes of the real code while a world runs. `profile` is a world whose faults meet the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sim.worlds import Broken, without_crc
from tailrace.errors import ErrorCode
from tailrace.log import append, local_log
from tailrace.log.producers import snapshots
from tailrace.log.producers import state as producer_state
from tailrace.log.producers.state import ProducerEntry, ProducerState
from tailrace.log.recovery import loader
from tailrace.metadata import replay
from tailrace.metadata.records import PartitionChangeRecord
from tailrace.records.batch import BatchHeader
from tailrace_broker.partitions import cached_image
from tailrace_broker.partitions import partition as broker_partition
from tailrace_broker.partitions.early_batches import EarlyBatches
from tailrace_broker.partitions.leader import LeaderState
from tailrace_broker.partitions.node import NO_EPOCH, Node
from tailrace_broker.partitions.partition import Fetched, Partition
from tailrace_broker.produce.refused_batches import RefusedBatches
from tailrace_controller.decide import alter_partition, elections, partition_change


@dataclass(frozen=True)
class Mutant(Broken):
    """profile is a world whose faults meet the rule, first_seed where to look for it."""

    profile: str
    first_seed: int = 1


def _watermark_of_one(self: LeaderState, present: int, end_offset: int, configured: int) -> int:
    """The high watermark follows the fastest follower."""
    if len(self.isr) < self.min_isr(configured):
        return present
    ends = [r.log_end_offset for broker_id, r in self.replicas.items() if broker_id in self.maximal_isr]
    return max(present, min(end_offset, max(ends, default=end_offset)))


def _watermark_of_isr(self: LeaderState, present: int, end_offset: int, configured: int) -> int:
    """The high watermark knows the ISR only, not who is about to be in it."""
    if len(self.isr) < self.min_isr(configured):
        return present
    ends = [r.log_end_offset for broker_id, r in self.replicas.items() if broker_id in self.isr]
    return max(present, min((end_offset, *ends)))


def _watermark_below_min_isr(self: LeaderState, present: int, end_offset: int, _configured: int) -> int:
    ends = [r.log_end_offset for broker_id, r in self.replicas.items() if broker_id in self.maximal_isr]
    return max(present, min((end_offset, *ends)))


def _counts_everybody(self: LeaderState, broker_id: int, epoch: int, offset: int, start: int, end: int) -> None:
    if epoch != NO_EPOCH:
        _COUNTED(self, broker_id, epoch, offset, start, end)
    else:
        self.replicas[broker_id].fetched(offset, start, end, self.node.monotonic_ms())


def _joins_at_once(self: LeaderState, _high_watermark: int) -> tuple[int, ...] | None:
    joining = tuple(
        broker_id
        for broker_id, replica in self.replicas.items()
        if broker_id not in self.isr and self.node.may_join(broker_id, replica.broker_epoch)
    )
    return self.isr + joining if joining else None


def _anybody_leads(
    partition: Any, replicas: Any, _isr: Any, _elr: Any, may_lead: Any, _election: Any
) -> tuple[int, bool]:
    if partition.leader in may_lead:
        return partition.leader, False
    return next((replica for replica in reversed(replicas) if replica in may_lead), -1), False


def _beyond_the_end(self: Partition, answer: Fetched, now_ms: int) -> bool:
    moved: bool = _FETCHED(self, answer, now_ms)
    if answer.error_code == ErrorCode.NONE and answer.diverging is None:
        self.high_watermark = max(self.high_watermark, answer.high_watermark)
    return moved


def _nobody_leaves(_image: Any, _broker_id: int, _config: Any) -> list[PartitionChangeRecord]:
    return []


def _same_epoch(draft: Any, record: Any) -> None:
    """A new leader goes on in the epoch of the old one."""
    partitions = draft.partitions_of(record.topic_id)
    before = partitions[record.partition_id].leader_epoch
    _CHANGE_PARTITION(draft, record)
    partitions[record.partition_id] = replace(partitions[record.partition_id], leader_epoch=before)


def _last_batch_only(entry: ProducerEntry | None, header: BatchHeader) -> ProducerEntry:
    now = _EXTENDED(entry, header)
    return now._replace(batches=now.batches[-1:])


def _whatever_it_says(image: Any, node_id: int, closed_epoch: int, _closed_offset: int) -> bool:
    mine = image.brokers.get(node_id)
    return mine is not None and mine.broker_epoch == closed_epoch


_FETCHED: Callable[..., bool] = Partition.fetched
_CHANGE_PARTITION: Callable[..., None] = replay.change_partition
_EXTENDED: Callable[..., ProducerEntry] = producer_state.extended

_COUNTED = LeaderState.fetched

MUTANTS = (
    Mutant(
        "a follower is told where its log diverges (KIP-101, 279, 595)",
        ((broker_partition, "diverges", lambda _epochs, _end, _epoch, _offset: None),),
        "clean",
    ),
    Mutant(
        "the high watermark waits for every member of the ISR",
        ((LeaderState, "high_watermark", _watermark_of_one),),
        "power",
    ),
    Mutant(
        "the high watermark counts the maximal ISR, not only the acknowledged one (KIP-497)",
        ((LeaderState, "high_watermark", _watermark_of_isr),),
        "network",
    ),
    Mutant(
        "the high watermark stands still under min.insync.replicas (KIP-966)",
        ((LeaderState, "high_watermark", _watermark_below_min_isr),),
        "power",
    ),
    Mutant(
        "acks=all waits for min.insync.replicas",
        ((LeaderState, "min_isr", lambda _self, _configured: 1),),
        "network",
    ),
    Mutant(
        "a replica joins the ISR when it has caught up",
        ((LeaderState, "_joined", _joins_at_once),),
        "clean",
    ),
    Mutant(
        "leaders come from the ISR, then from the eligible leader replicas",
        ((partition_change, "_elect", _anybody_leads),),
        "clean",
    ),
    Mutant(
        "an ISR names the broker epochs it was made of (KIP-903)",
        (
            (alter_partition, "_eligible", lambda _image, _broker_id, _epoch: True),
            (Node, "may_join", lambda _self, _broker_id, _epoch: True),
        ),
        "power",
        first_seed=440,
    ),
    Mutant(
        "a follower that has not registered does not count",
        ((LeaderState, "fetched", _counts_everybody),),
        "idempotent",
        first_seed=860,
    ),
    Mutant(
        "a follower's high watermark stays within its log",
        ((Partition, "fetched", _beyond_the_end),),
        "network",
    ),
    Mutant(
        "a broker that ended uncleanly leaves ISR and ELR",
        ((elections, "on_unclean_shutdown", _nobody_leaves),),
        "power",
    ),
    Mutant(
        "an election raises the leader epoch",
        ((replay, "RULES", {**replay.RULES, PartitionChangeRecord: _same_epoch}),),
        "network",
    ),
    Mutant(
        "end offsets wait for the epoch's start (KIP-207)",
        ((Partition, "settled", property(lambda _self: True)),),
        "network",
    ),
    Mutant(
        "after an unclean start nobody leads what a cached image says",
        ((Node, "may_lead", lambda _self, _replicas: True),),
        "power",
    ),
    Mutant(
        "nor what nobody else has a replica of",
        ((Node, "may_lead", lambda self, replicas: len(replicas) == 1 or self.leads_shared),),
        "unclean",
        first_seed=960,
    ),
    Mutant(
        "nor after a clean one what a cached image says that is older than what was known then",
        # Of two rules that keep it from committing anything: its followers, on old images as well, do not count either.
        ((cached_image, "goes_on", _whatever_it_says), (LeaderState, "fetched", _counts_everybody)),
        "unclean",
        first_seed=2050,
    ),
    Mutant(
        "an empty log begins with the batch within which its leader's log starts",
        ((append, "_begin_within", lambda _log, _records: None),),
        "delete",
    ),
    Mutant(
        "a batch that comes without the refused one before it is refused, too, once",
        (
            (RefusedBatches, "misses", lambda _self, _place, _entry, _header: False),
            (EarlyBatches, "comes_early", lambda _self, _entry, _header, _now_ms: False),
        ),
        "idempotent",
    ),
    Mutant(
        "a leader knows the last five batches of a producer (KIP-98)",
        ((producer_state, "extended", _last_batch_only),),
        "idempotent",
    ),
    Mutant(
        "a follower knows the producers of what it fetches",
        ((append, "note_producer", lambda _log, _header, _data: None),),
        "idempotent",
    ),
    Mutant(
        "a log that was truncated knows the producers of what is left",
        ((local_log, "load_producers", lambda _filesystem, _directory, _segments, _end: ProducerState()),),
        "idempotent",
    ),
    Mutant(
        "behind a snapshot the batches before a producer's last one are found again",
        ((snapshots, "recall", lambda _state, _segments, _offset: None),),
        "idempotent",
        first_seed=100,
    ),
    Mutant(
        "recovery checks the CRC of what may be torn",
        ((loader, "validate", without_crc),),
        "power",
    ),
)

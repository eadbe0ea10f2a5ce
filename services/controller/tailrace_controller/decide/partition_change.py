"""What becomes of one partition: its ISR, eligible leader replicas and leader after a change, as in Apache Kafka 4.3.

Leaders come from the ISR in the order of the replicas; with an empty ISR from the eligible leader replicas, who left it
while it was below min.insync.replicas and so hold all that was committed (KIP-966); with both empty the last leader
known may return, and may have lost records: its election is unclean, as is one that a topic allows of any live replica.
A leader epoch rises when the leader changes or a replica leaves the assignment, not when the ISR shrinks.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from operator import attrgetter
from uuid import UUID

from tailrace.metadata.image import PartitionImage
from tailrace.metadata.records import NO_LEADER, NO_LEADER_CHANGE, PartitionChangeRecord

RECOVERED, RECOVERING = 0, 1  # leader_recovery_state (KIP-704)
_NO_CHANGE = -1
# All that a change depends on, but for the wish and the topic's rules.
state_of = attrgetter(
    "replicas",
    "isr",
    "leader",
    "removing_replicas",
    "adding_replicas",
    "leader_recovery_state",
    "eligible_leader_replicas",
    "last_known_elr",
)


class Election(Enum):
    """PREFERRED rather the first replica, ONLINE rather the present leader; UNCLEAN anybody rather than nobody."""

    PREFERRED = auto()
    ONLINE = auto()
    UNCLEAN = auto()


@dataclass(frozen=True, slots=True)
class Wish:
    """What a caller wants of a partition; None leaves it as it is."""

    election: Election = Election.ONLINE
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    leader_recovery_state: int | None = None
    not_eligible: int = NO_LEADER  # a broker that may have lost its last records


@dataclass(frozen=True, slots=True)
class Assignment:
    """The replicas of a partition, those that a reassignment adds and removes, and the ISR."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def reassigning(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding_replicas or self.removing_replicas)

    def completed(self) -> "Assignment":
        """Returns the assignment after the reassignment if all that stay are in sync, else itself."""
        if not self.reassigning:
            return self
        replicas = without(self.replicas, self.removing_replicas)
        isr = without(self.isr, self.removing_replicas)
        if not isr or not set(replicas) <= set(isr):
            return self
        return Assignment(replicas, (), (), isr)


def change(
    topic_id: UUID, index: int, partition: PartitionImage, may_lead: Collection[int], min_isr: int, wish: Wish
) -> PartitionChangeRecord | None:
    """Returns the record that fulfils a wish, None when nothing changes.

    may_lead are the brokers that are live; min_isr is the topic's, not more than its replicas.
    """
    target = _wanted(partition, wish).completed()
    isr = target.isr
    elr = _eligible(partition, target, min_isr, wish.not_eligible)
    leader, unclean = _elect(partition, target.replicas, isr, elr, may_lead, wish.election)
    elected = leader != partition.leader
    recovery = partition.leader_recovery_state if wish.leader_recovery_state is None else wish.leader_recovery_state
    if leader in elr:  # as the first in sync; where it commits alone the others are not eligible any more
        isr, elr = (leader,), without(elr, (leader,)) if min_isr > 1 else ()
    elif elected and unclean:
        isr, elr, recovery = (leader,), (), RECOVERING
    named = leader if elected else NO_LEADER_CHANGE
    if not elected and target.replicas != partition.replicas and not set(partition.replicas) <= set(target.replicas):
        named = partition.leader  # naming the same leader raises its epoch: who left may not fetch any more
    record = PartitionChangeRecord(
        index,
        topic_id,
        isr=_changed(isr, partition.isr),
        leader=named,
        replicas=_changed(target.replicas, partition.replicas),
        removing_replicas=_changed(target.removing_replicas, partition.removing_replicas),
        adding_replicas=_changed(target.adding_replicas, partition.adding_replicas),
        leader_recovery_state=_NO_CHANGE if recovery == partition.leader_recovery_state else recovery,
        eligible_leader_replicas=_changed(elr, partition.eligible_leader_replicas),
        last_known_elr=_changed(_last_known(partition, named), partition.last_known_elr),
    )
    return None if _is_no_op(record) else record


def _is_no_op(record: PartitionChangeRecord) -> bool:
    return (
        record.isr is None
        and record.leader == NO_LEADER_CHANGE
        and record == PartitionChangeRecord(record.partition_id, record.topic_id)
    )


def without(members: Sequence[int], gone: Collection[int]) -> tuple[int, ...]:
    """Returns the members that are not gone, in their order."""
    return tuple([member for member in members if member not in gone])


def _wanted(partition: PartitionImage, wish: Wish) -> Assignment:
    return Assignment(
        partition.replicas if wish.replicas is None else wish.replicas,
        partition.adding_replicas if wish.adding_replicas is None else wish.adding_replicas,
        partition.removing_replicas if wish.removing_replicas is None else wish.removing_replicas,
        partition.isr if wish.isr is None else wish.isr,
    )


def _eligible(partition: PartitionImage, target: Assignment, min_isr: int, not_eligible: int) -> tuple[int, ...]:
    """Below min ISR the high watermark stands still, so whoever leaves the ISR there keeps all that is committed.

    Kafka also keeps who leaves the replicas, and deletes its log: if it comes back by a later reassignment it would
    lead without any record. Here it is not eligible any more.
    """
    if len(target.isr) >= min_isr:
        return ()
    candidates = {*partition.eligible_leader_replicas, *partition.isr}.difference(target.isr, (not_eligible,))
    return tuple(sorted(candidates.intersection(target.replicas))) if candidates else ()


def _elect(
    partition: PartitionImage,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    may_lead: Collection[int],
    election: Election,
) -> tuple[int, bool]:
    """Returns the leader, NO_LEADER if nobody may be, and whether the election is unclean."""
    trusted = isr or elr
    order = (partition.leader, *replicas)
    if election is Election.PREFERRED:
        order = (replicas[0], *order)
    for replica in order:
        if replica in trusted and replica in may_lead:
            return replica, False
    if not trusted and len(partition.last_known_elr) == 1 and partition.last_known_elr[0] in may_lead:
        return partition.last_known_elr[0], True
    if election is Election.UNCLEAN:
        for replica in replicas:
            if replica in may_lead:
                return replica, True
    return NO_LEADER, False


def _last_known(partition: PartitionImage, named: int) -> tuple[int, ...]:
    """Remembers who led when the partition went offline, and forgets it when somebody leads."""
    if named == NO_LEADER and not partition.last_known_elr and partition.leader != NO_LEADER:
        return (partition.leader,)
    return () if named >= 0 else partition.last_known_elr


def _changed(now: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if now == before else now

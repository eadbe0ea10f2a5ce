"""What must hold after every event, whoever acted.

Every replica's log is mirrored as stamps (offsets, leader epoch, CRC), read batch by batch as it grows. The ledger is
what was ever below a high watermark of anybody: it only grows, and nothing may contradict it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from sim.replication.world import World
from tailrace.log.log import Log
from tailrace.metadata.image import MetadataImage, PartitionImage
from tailrace.records.batch import read_header, split
from tailrace_broker.partitions.partition import Partition

TOPIC = "t"


class Violation(AssertionError):
    """A promise was broken; the message says which."""


class Stamp(NamedTuple):
    """What makes two batches the same: the CRC covers all but the base offset and the leader epoch."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int


class Replica(NamedTuple):
    """Where a log lies."""

    broker_id: int
    partition: int


@dataclass(slots=True)
class Mirror:
    """One replica's log as last seen; `agreed` counts its first stamps that the ledger has, too."""

    stamps: list[Stamp] = field(default_factory=list)
    agreed: int = 0
    start: int = 0
    high_watermark: int = 0
    cut_to: int | None = None
    lost_power: bool = False  # what was not on the disk may be gone, and no registration has said so yet

    @property
    def end_offset(self) -> int:
        return self.stamps[-1].next_offset if self.stamps else 0

    @property
    def agreed_offset(self) -> int:
        return self.stamps[self.agreed - 1].next_offset if self.agreed else 0

    def cut(self, offset: int) -> None:
        """Forgets what ends above offset."""
        while self.stamps and self.stamps[-1].next_offset > offset:
            self.stamps.pop()
        self.agreed = min(self.agreed, len(self.stamps))


@dataclass(slots=True)
class Ledger:
    """What is committed in one partition."""

    stamps: list[Stamp] = field(default_factory=list)
    leaders: dict[int, int] = field(default_factory=dict)  # leader epoch -> who appended clients' records in it
    batches: dict[tuple[int, int], Stamp] = field(default_factory=dict)  # (leader epoch, base offset)
    start: int = 0  # up to where DeleteRecords was ever asked for
    archive: list[bytes] = field(default_factory=list)  # the batches that begin below it, before they went
    lost: bool = False  # an unclean election, or the only replica's power loss: what was committed may be gone

    @property
    def end_offset(self) -> int:
        return self.stamps[-1].next_offset if self.stamps else 0

    @property
    def archived(self) -> int:
        """The end of the archive."""
        return read_header(self.archive[-1]).next_offset if self.archive else 0


class Checker:
    """Holds the mirrors and the ledgers of one world."""

    def __init__(self, world: World, partitions: int, min_isr: int) -> None:
        self.world = world
        self.min_isr = min_isr
        self.image = MetadataImage()
        self.ledgers = [Ledger() for _ in range(partitions)]
        self.mirrors: dict[Replica, Mirror] = {}
        self.incarnations: dict[int, UUID] = {}  # of the present lives, as brokers say
        self.trusts_last_leader = True  # page caches survive, so KIP-966's last known leader has lost nothing
        self.acknowledged = 0
        self.unclean_elections = 0

    def mirror(self, broker_id: int, partition: int) -> Mirror:
        """The replica's mirror, empty at first."""
        return self.mirrors.setdefault(Replica(broker_id, partition), Mirror())

    def fail(self, text: str) -> None:
        """A promise is broken."""
        raise Violation(text)

    # -- logs ----------------------------------------------------------------------------------------------------------

    def lost_power(self, broker_id: int, partition: int) -> None:
        """What was not on the disk may be gone; where it was the only replica, nobody has to elect it to lead again."""
        self.mirror(broker_id, partition).lost_power = True
        state = self.image.partition(TOPIC, partition)
        if state is not None and state.replicas == (broker_id,) and not self.trusts_last_leader:
            self.world.say("checker", f"the only replica of {TOPIC}-{partition} lost power: all bets are off")
            self.ledgers[partition].lost = True

    def leads_alone(self, broker_id: int, partition: int) -> None:
        """No controller gives it another epoch: where its log ends earlier now, offsets are given again."""
        if self.mirror(broker_id, partition).lost_power and self.ledgers[partition].lost:
            self.ledgers[partition].batches.clear()

    def opened(self, broker_id: int, partition: int, log: Log) -> None:
        """A log was opened, perhaps recovered: it is read anew, and its cuts are heard of from now on."""
        mirror = self.mirror(broker_id, partition)
        mirror.stamps.clear()
        mirror.agreed = mirror.start = 0
        mirror.high_watermark = 0
        mirror.cut_to = None
        log.truncate_to = _heard(mirror, log.truncate_to)  # type: ignore[method-assign, assignment]
        log.reset_to = _heard(mirror, log.reset_to)  # type: ignore[method-assign, assignment]
        self.read(broker_id, partition, log)

    def deleted(self, partition: int, log: Log, offset: int) -> None:
        """A leader is about to delete what it has below offset."""
        ledger = self.ledgers[partition]
        ledger.start = max(ledger.start, offset)
        while ledger.archived < offset:
            ledger.archive.append(bytes(log.read(ledger.archived, 1).read()))

    def look(self, broker_id: int, partitions: dict[int, Partition]) -> None:
        """Looks at what a broker's event changed."""
        for index, replica in partitions.items():
            log = replica.opened
            if log is None:
                continue
            mirror = self.mirror(broker_id, index)
            if (mirror.cut_to, mirror.start, mirror.end_offset) != (None, log.log_start_offset, log.log_end_offset):
                self.read(broker_id, index, log)
            if replica.high_watermark != mirror.high_watermark:
                self.watermark(broker_id, index, replica.high_watermark)

    def read(self, broker_id: int, partition: int, log: Log) -> None:
        """Takes up what the log has that its mirror has not."""
        mirror, ledger = self.mirror(broker_id, partition), self.ledgers[partition]
        cut = mirror.cut_to is not None
        if mirror.cut_to is not None:
            mirror.cut(mirror.cut_to)
            mirror.cut_to = None
        self._begin(mirror, ledger, _name(broker_id, partition), log.log_start_offset)
        found = _stamps(log, max(mirror.end_offset, log.log_start_offset))
        if ledger.lost and found and mirror.end_offset < found[0].base_offset:
            mirror.stamps.append(Stamp(mirror.end_offset, found[0].base_offset, 0, 0))  # nobody knows what was deleted
        for stamp in found:
            if stamp.base_offset != mirror.end_offset:
                self.fail(f"{_name(broker_id, partition)} has a gap: {mirror.end_offset}, then {stamp.base_offset}")
            known = ledger.batches.setdefault((stamp.leader_epoch, stamp.base_offset), stamp)
            if known != stamp:
                self.fail(f"two batches at offset {stamp.base_offset} of epoch {stamp.leader_epoch}: {known}, {stamp}")
            if mirror.stamps and stamp.leader_epoch < mirror.stamps[-1].leader_epoch:
                self.fail(f"{_name(broker_id, partition)}: the leader epoch falls at offset {stamp.base_offset}")
            mirror.stamps.append(stamp)
        self._agree(mirror, ledger)
        empty = log.log_start_offset == log.log_end_offset  # within a batch, maybe
        if mirror.end_offset != log.log_end_offset and not empty:
            self.fail(f"{_name(broker_id, partition)} ends at {log.log_end_offset}, its batches at {mirror.end_offset}")
        if cut:
            self.check_in_sync(partition)

    def _begin(self, mirror: Mirror, ledger: Ledger, name: str, start: int) -> None:
        """What a log has no more was deleted, and counts as what was committed, whatever it was.

        A follower whose log parted from its leader's below the leader's log start is not told of that, as in Kafka.
        """
        mirror.start = start
        if ledger.lost:
            return
        if start > ledger.start:
            self.fail(f"{name} begins at {start}, and only what is below {ledger.start} was deleted")
        if mirror.agreed_offset < start:
            deleted = [stamp for stamp in ledger.stamps if stamp.next_offset <= start]
            mirror.stamps[:] = deleted + [stamp for stamp in mirror.stamps if stamp.next_offset > start]
            mirror.agreed = len(deleted)

    def _agree(self, mirror: Mirror, ledger: Ledger) -> None:
        stamps, committed = mirror.stamps, ledger.stamps
        at, most = mirror.agreed, min(len(stamps), len(committed))
        while at < most and stamps[at] == committed[at]:
            at += 1
        mirror.agreed = at

    # -- promises ------------------------------------------------------------------------------------------------------

    def led(self, broker_id: int, partition: int, leader_epoch: int) -> None:
        """A broker appended a client's records as leader of this epoch: the only one that ever does."""
        first = self.ledgers[partition].leaders.setdefault(leader_epoch, broker_id)
        if first != broker_id:
            self.fail(f"epoch {leader_epoch} of {TOPIC}-{partition} has two leaders: {first} and {broker_id}")

    def watermark(self, broker_id: int, partition: int, high_watermark: int) -> None:
        """A replica's high watermark moved: what lies below is committed, everywhere the same."""
        mirror, ledger = self.mirror(broker_id, partition), self.ledgers[partition]
        mirror.high_watermark = high_watermark
        if high_watermark > max(mirror.end_offset, ledger.start):
            where = _name(broker_id, partition)
            self.fail(f"{where} has high watermark {high_watermark} beyond its log end {mirror.end_offset}")
        if ledger.lost:
            return
        if high_watermark > ledger.end_offset and mirror.agreed == len(ledger.stamps):
            ledger.stamps += [stamp for stamp in mirror.stamps[mirror.agreed :] if stamp.next_offset <= high_watermark]
            for replica, other in self.mirrors.items():
                if replica.partition == partition:
                    self._agree(other, ledger)
            self.check_in_sync(partition)
        if max(mirror.agreed_offset, ledger.start) < high_watermark:
            where = _name(broker_id, partition)
            what = f"high watermark {high_watermark}, but agrees with what is committed up to {mirror.agreed_offset}"
            self.fail(f"{where} has {what}")

    def check_in_sync(self, partition: int) -> None:
        """What is committed is on every member of the ISR."""
        image, ledger = self.image.partition(TOPIC, partition), self.ledgers[partition]
        if image is None or ledger.lost:
            return
        for broker_id in image.isr:
            mirror = self.mirror(broker_id, partition)
            if mirror.agreed < len(ledger.stamps) and not mirror.lost_power:
                self.fail(
                    f"broker {broker_id} is in the ISR {image.isr} of {TOPIC}-{partition} (epoch {image.leader_epoch})"
                    f" and lacks what is committed from {mirror.agreed_offset} to {ledger.end_offset}"
                )

    def acked(self, known: MetadataImage, partition: int, last_offset: int, value: bytes, replicas: int) -> None:
        """acks=all was answered: the record is committed, and on min.insync.replicas logs at least.

        known: the image that the leader has, which may not have heard of a power loss that the controller knows.
        """
        self.acknowledged += 1
        ledger = self.ledgers[partition]
        if ledger.lost:
            return
        if ledger.end_offset <= last_offset:
            end = ledger.end_offset
            self.fail(f"{value!r} was acknowledged at {last_offset} in {TOPIC}-{partition}, committed is up to {end}")
        holders = sum(  # who lost power since told the leader before that it had it
            mirror.agreed_offset > last_offset or mirror.lost_power or self._lives_anew(known, replica.broker_id)
            for replica, mirror in self.mirrors.items()
            if replica.partition == partition
        )
        if holders < min(self.min_isr, replicas):
            self.fail(f"{value!r} was acknowledged at {last_offset} and only {holders} replicas have it")

    def _lives_anew(self, image: MetadataImage, broker_id: int) -> bool:
        """Whether the broker's life is one that this image does not know."""
        broker = image.brokers.get(broker_id)
        return broker is None or broker.incarnation_id != self.incarnations.get(broker_id)

    def same(self, partition: int, stamps: Iterable[Stamp], who: str) -> None:
        """A reader was given these batches: they are the committed ones."""
        ledger = self.ledgers[partition]
        if ledger.lost:
            return
        for stamp in stamps:
            if stamp not in _around(ledger, stamp.base_offset):
                self.fail(f"{who} read {stamp} of {TOPIC}-{partition}, which is not what was committed")

    # -- metadata ------------------------------------------------------------------------------------------------------

    def committed(self, old: MetadataImage, new: MetadataImage) -> None:
        """The database has a newer image."""
        self.image = new
        for broker_id, broker in new.brokers.items():
            before_it = old.brokers.get(broker_id)
            if before_it is not None and broker.incarnation_id == before_it.incarnation_id:
                continue  # fenced, or the like: the news of a life that may be over
            if broker.incarnation_id == self.incarnations.get(broker_id):
                for partition in range(len(self.ledgers)):
                    self.mirror(broker_id, partition).lost_power = False
        for partition in range(len(self.ledgers)):
            before, now = old.partition(TOPIC, partition), new.partition(TOPIC, partition)
            if now is None or now is before:
                continue
            if before is not None:
                self._elected(partition, before, now)
            self.check_in_sync(partition)

    def _elected(self, partition: int, old: PartitionImage, new: PartitionImage) -> None:
        if new.leader_epoch < old.leader_epoch or new.partition_epoch <= old.partition_epoch:
            self.fail(f"the epochs of {TOPIC}-{partition} went back: {old}, then {new}")
        trusted = (*old.isr, *old.eligible_leader_replicas)
        if self.trusts_last_leader and not trusted:
            trusted = old.last_known_elr
        # A move ends once all who stay are in the ISR; the last of them may join and lead with one and the same change.
        moved = old.adding_replicas and not new.adding_replicas and set(new.replicas) <= set(new.isr)
        if new.leader not in (-1, *trusted) and not moved:
            self.unclean_elections += 1
            self.world.say("checker", f"unclean election of {new.leader} in {TOPIC}-{partition}: all bets are off")
            self.ledgers[partition].lost = True


def _heard(mirror: Mirror, cut: Callable[[int], None]) -> Callable[[int], None]:
    def heard(offset: int) -> None:
        mirror.cut_to = offset if mirror.cut_to is None else min(offset, mirror.cut_to)
        cut(offset)

    return heard


def stamps_of(records: Any) -> list[Stamp]:
    """The stamps of whole batches."""
    headers = [read_header(batch) for batch in split(records)]
    return [Stamp(h.base_offset, h.next_offset, h.partition_leader_epoch, h.crc) for h in headers]


def _stamps(log: Log, offset: int) -> list[Stamp]:
    found: list[Stamp] = []
    while offset < log.log_end_offset:
        found += stamps_of(log.read(offset, 2**30).read())
        offset = found[-1].next_offset
    return found


def _around(ledger: Ledger, offset: int) -> list[Stamp]:
    """The committed stamp at offset, by bisection."""
    low, high = 0, len(ledger.stamps)
    while low < high:
        middle = (low + high) // 2
        if ledger.stamps[middle].base_offset < offset:
            low = middle + 1
        else:
            high = middle
    return ledger.stamps[low : low + 1]


def _name(broker_id: int, partition: int) -> str:
    return f"broker {broker_id}'s {TOPIC}-{partition}"

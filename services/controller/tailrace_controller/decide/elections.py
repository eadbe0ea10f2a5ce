"""Which partitions change when brokers come and go, and when configs allow another leader: ISR, ELR and leaders.

The records are for the image as it is; those that change the broker itself come from brokers.py.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from uuid import UUID

from tailrace.config import Config
from tailrace.metadata.directories import MIGRATING, UNASSIGNED, after_move, directory_of, is_online
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace.metadata.records import NO_LEADER, PartitionChangeRecord
from tailrace_controller.decide import partition_change, topic_rules
from tailrace_controller.decide.partition_change import Election, Wish


class Elections:
    """What elections in one image have in common: who may lead, and what each topic asks for."""

    def __init__(self, image: MetadataImage, config: Config, *, added: int = NO_LEADER, removed: int = NO_LEADER):
        """added may lead though the image says it is fenced, removed may not though the image says it is live."""
        self._image = image
        self._config = config
        self._min_isrs = topic_rules.MinIsrs(image, config)
        self._unclean: dict[str, bool] = {}
        live = {broker.broker_id for broker in image.brokers.values() if may_lead(image, broker.broker_id)}
        self.may_lead = frozenset((live | {added}) - {removed, NO_LEADER})
        self._online = {UNASSIGNED, MIGRATING}.union(*(broker.log_dirs for broker in image.brokers.values()))

    def change(
        self, topic: TopicImage, index: int, partition: PartitionImage, wish: Wish
    ) -> PartitionChangeRecord | None:
        """Returns the record that fulfils a wish, None when nothing changes."""
        min_isr = self.min_isr(topic)
        leaders = self._leaders(partition)
        record = partition_change.change(topic.topic_id, index, partition, leaders, min_isr, wish)
        if record is not None and record.replicas is not None:
            directories = after_move(self._image, partition, record.replicas)
            if directories != partition.directories:
                record = replace(record, directories=directories)
        return record

    def _leaders(self, partition: PartitionImage) -> frozenset[int]:
        """Who may lead it: a live broker whose replica is not on a log directory that is offline (KIP-858)."""
        if self._online.issuperset(partition.directories):
            return self.may_lead
        brokers = self._image.brokers
        offline = [
            replica
            for replica, directory_id in zip(partition.replicas, partition.directories, strict=True)
            if replica in brokers and not is_online(directory_id, brokers[replica].log_dirs)
        ]
        return self.may_lead.difference(offline)

    def min_isr(self, topic: TopicImage) -> int:
        """Returns a topic's min ISR, not more than its replicas."""
        return self._min_isrs.of(topic)

    def election(self, name: str) -> Election:
        """Returns how a topic's partitions elect when nobody asked for an election."""
        unclean = self._unclean.get(name)
        if unclean is None:
            unclean = self._unclean[name] = topic_rules.allows_unclean_election(self._image, name, self._config)
        return Election.UNCLEAN if unclean else Election.ONLINE


def may_lead(image: MetadataImage, broker_id: int) -> bool:
    """Says whether a broker is registered, not fenced and not shutting down."""
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def on_broker_gone(image: MetadataImage, broker_id: int, config: Config) -> list[PartitionChangeRecord]:
    """Returns what changes when a broker that keeps its log may not lead nor be in sync any more."""
    return _without(image, broker_id, config, lambda partition: broker_id in partition.isr, NO_LEADER)


def leaders_of(image: MetadataImage, broker_id: int, config: Config) -> list[PartitionChangeRecord]:
    """Returns what on_broker_gone returns for the partitions that the broker leads."""
    return _without(image, broker_id, config, lambda partition: partition.leader == broker_id, NO_LEADER)


def on_unclean_shutdown(image: MetadataImage, broker_id: int, config: Config) -> list[PartitionChangeRecord]:
    """Returns what changes when a broker may have lost the end of its log: it leaves every ISR and ELR (KIP-966)."""

    def touched(partition: PartitionImage) -> bool:
        return broker_id in partition.isr or broker_id in partition.eligible_leader_replicas

    return _without(image, broker_id, config, touched, broker_id)


def on_directory_gone(
    image: MetadataImage, broker_id: int, offline: Collection[UUID], config: Config
) -> list[PartitionChangeRecord]:
    """Returns what changes when a broker that stays has lost directories: what lies there leaves the ISR (KIP-858)."""

    def touched(partition: PartitionImage) -> bool:
        return directory_of(partition, broker_id) in offline

    return _without(image, broker_id, config, touched, NO_LEADER)


def on_broker_back(image: MetadataImage, broker_id: int, config: Config) -> list[PartitionChangeRecord]:
    """Returns the partitions without a leader that have one when this broker is unfenced."""
    elections = Elections(image, config, added=broker_id)
    return _changes(image, elections, _has_no_leader, lambda _, election: Wish(election))


def unclean(image: MetadataImage, config: Config) -> list[PartitionChangeRecord]:
    """Returns the partitions without a leader that get one because their topic allows unclean elections."""

    def wish(_: PartitionImage, election: Election) -> Wish | None:
        return Wish(election) if election is Election.UNCLEAN else None

    return _changes(image, Elections(image, config), _has_no_leader, wish)


def forget_eligible(topics: Iterable[TopicImage]) -> Iterator[PartitionChangeRecord]:
    """Yields the partitions whose ELR a new min.insync.replicas makes worthless (KIP-966).

    With a lower min ISR a leader commits records that those outside of the ISR lack. While nobody leads nothing is
    committed, so there the ELR stays; Kafka drops it there too, and leaves such a partition without a way back.
    """
    for topic in topics:
        for index, partition in enumerate(topic.partitions):
            if partition.leader != NO_LEADER and (partition.eligible_leader_replicas or partition.last_known_elr):
                yield PartitionChangeRecord(index, topic.topic_id, eligible_leader_replicas=(), last_known_elr=())


def partitions(image: MetadataImage) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    """Yields every partition with its topic and id."""
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            yield topic, index, partition


def _has_no_leader(partition: PartitionImage) -> bool:
    return partition.leader == NO_LEADER


def _without(
    image: MetadataImage,
    broker_id: int,
    config: Config,
    touched: Callable[[PartitionImage], bool],
    not_eligible: int,
) -> list[PartitionChangeRecord]:
    """What changes where the broker leaves the ISR."""

    def wish(partition: PartitionImage, election: Election) -> Wish:
        isr = partition_change.without(partition.isr, (broker_id,))
        return Wish(election, isr=isr, not_eligible=not_eligible)

    return _changes(image, Elections(image, config, removed=broker_id), touched, wish)


def _changes(
    image: MetadataImage,
    elections: Elections,
    touched: Callable[[PartitionImage], bool],
    wish: Callable[[PartitionImage, Election], Wish | None],
) -> list[PartitionChangeRecord]:
    """Thousands of partitions are alike but for their ids: each kind is decided once."""
    decided: dict[object, PartitionChangeRecord | None] = {}
    found: list[PartitionChangeRecord] = []
    for topic in image.topics.values():
        rules: tuple[Election, int] | None = None
        for index, partition in enumerate(topic.partitions):
            if touched(partition):
                if rules is None:
                    rules = (elections.election(topic.name), elections.min_isr(topic))
                # Who may lead, and what a reassignment that completes leaves, depends on the directories, too.
                kind = (rules, partition_change.state_of(partition), partition.directories)
                if kind not in decided:
                    wanted = wish(partition, rules[0])
                    decided[kind] = None if wanted is None else elections.change(topic, index, partition, wanted)
                if (alike := decided[kind]) is not None:
                    found.append(alike.of(index, topic.topic_id))
    return found

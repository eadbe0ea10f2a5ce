"""What this broker knows of the cluster's topics: a table by name and by id, kept up with the metadata image."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias
from uuid import UUID

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.log.log import Log
from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage, changed
from tailrace.net.turns import turns
from tailrace.steps import Steps
from tailrace_broker.partitions.node import Node
from tailrace_broker.partitions.opening import Openings
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.partitions.recovery import Recoveries


class Traffic:
    """What clients wrote to a topic's partitions that are led here, and read from those that are here."""

    __slots__ = ("bytes_in", "bytes_out", "messages_in")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.messages_in = 0


class TopicRow:
    """One topic: the image's view and the partitions this broker has a replica of."""

    __slots__ = ("image", "partitions", "traffic")

    def __init__(self, image: TopicImage) -> None:
        self.image = image
        self.partitions: dict[int, Partition] = {}
        self.traffic = Traffic()


class Changes(NamedTuple):
    """What one image brought: partitions with another leader or epoch, those with another ISR, and those deleted.

    more: this is a part of it, and others follow in a moment.
    """

    moved: list[Partition]
    touched: list[Partition]
    deleted: list[Partition]
    more: bool = False


CarryOut: TypeAlias = Callable[[Changes], None]
TakeUp: TypeAlias = Steps[None]  # of an image, a partition at a time


class Topics:
    """Keys are bytes as they come off the wire: a name, or the 16 bytes of a topic id."""

    def __init__(
        self,
        node: Node,
        open_log: Callable[[str, UUID, int], Log],
        checkpointed: Callable[[str, int], int] = lambda topic, index: 0,
        place: Callable[[str, UUID, int, PartitionImage], bool] = lambda topic, topic_id, index, image: True,
        recoveries: Recoveries | None = None,
        openings: Openings | None = None,
    ) -> None:
        self.node = node
        self.node_id = node.node_id
        self._open_log = open_log
        self._checkpointed = checkpointed
        self._place = place
        self._recoveries = recoveries
        self._openings = openings
        self.by_name: dict[bytes, TopicRow] = {}
        self.by_id: dict[bytes, TopicRow] = {}

    def traffic(self, key: bytes, *, by_id: bool) -> Traffic:
        """To be counted up; of a topic that was deleted meanwhile, one that nothing shows."""
        row = (self.by_id if by_id else self.by_name).get(key)
        return Traffic() if row is None else row.traffic

    def leading(self, key: bytes, index: int, *, by_id: bool) -> tuple[Partition | None, int]:
        """The partition if this broker leads it, else None and Kafka's code."""
        row = (self.by_id if by_id else self.by_name).get(key)
        if row is None:
            return None, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = row.partitions.get(index)
        if partition is not None and partition.leader == self.node_id:
            return partition, ErrorCode.NONE
        if partition is not None and partition.offline:
            return None, ErrorCode.KAFKA_STORAGE_ERROR
        if partition is not None and partition.recovering:
            self._hurry(partition)
        if 0 <= index < len(row.image.partitions):
            return None, ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def led(self, topic: str, index: int) -> Partition:
        """The partition of that name if this broker leads it; else ApiError with Kafka's code."""
        partition, code = self.leading(topic.encode(), index, by_id=False)
        if partition is None:
            raise ApiError(ErrorCode(code))
        return partition

    def to_be_opened(self, topic_id: bytes, index: int) -> Partition | None:
        """The partition if this broker leads it as soon as its log is opened, which comes next."""
        row = self.by_id.get(topic_id)
        partition = None if row is None else row.partitions.get(index)
        if partition is None or self._openings is None or (partition.topic, index) not in self._openings:
            return None
        self._openings.hurry(partition.topic, index)
        return partition

    def _hurry(self, partition: Partition) -> None:
        if self._recoveries is not None:
            self._recoveries.hurry(partition.topic, partition.index)
        if self._openings is not None:
            self._openings.hurry(partition.topic, partition.index)

    def readable(self, key: bytes, index: int, *, by_id: bool) -> tuple[Partition | None, int]:
        """The partition if this broker leads or follows it (KIP-392), else None and Kafka's code."""
        row = (self.by_id if by_id else self.by_name).get(key)
        partition = None if row is None else row.partitions.get(index)
        if partition is not None and partition.leader >= 0:
            return partition, ErrorCode.NONE
        return self.leading(key, index, by_id=by_id)

    def partitions(self) -> Iterator[Partition]:
        """Every partition with a replica here."""
        for row in self.by_name.values():
            yield from row.partitions.values()

    def each(self, partitions: Iterable[Partition] | None = None) -> AsyncIterator[Partition]:
        """These partitions, or all; the other work of the loop has its turn between. Some may go meanwhile."""
        return turns(list(self.partitions() if partitions is None else partitions))

    def update(self, old: MetadataImage, new: MetadataImage, carry_out: CarryOut) -> TakeUp:
        """Follows the image: which partitions have another leader, which another ISR, and which are gone.

        What is yet to come is as in the image before: a new partition is not known, one that moves has not moved.
        """
        names = changed(old.topics, new.topics)
        for name in names:
            topic, now = old.topics.get(name), new.topics.get(name)
            if topic is not None and (now is None or now.topic_id != topic.topic_id):
                row = self.by_name.pop(name.encode(), None)
                self.by_id.pop(topic.topic_id.bytes, None)
                while row is not None and row.partitions:
                    carry_out(Changes([], [], [row.partitions.popitem()[1]], more=True))
                    yield
        for name in names:
            if (now := new.topics.get(name)) is not None:
                yield from self._update_topic(name, now, carry_out)
        carry_out(Changes([], [], []))

    def hold_back(self) -> None:
        """Leads nothing until release.

        After an unclean stop, or on another disk, the log may lack what followers and consumers saw. As the leader of
        an epoch of its earlier life a broker would make the others cut that too, and alone it would give the offsets of
        that epoch again. Its registration gives the leaderships away first (KIP-966), to come back with another epoch.
        Only a cached image that knows the very life that was closed cleanly may be taken at its word.
        """
        self.node.leads_shared = self.node.leads_alone = False

    def release(self, image: MetadataImage, carry_out: CarryOut) -> TakeUp:
        """Takes up the leaderships that this image gives it."""
        self.node.leads_shared = self.node.leads_alone = True
        yield from self._look_again(image, carry_out)

    def release_alone(self, image: MetadataImage, carry_out: CarryOut) -> TakeUp:
        """Takes up what nobody else has a replica of, in the epoch it had.

        For while no controller is there to give it another one: the data plane goes on without.
        """
        self.node.leads_alone = True
        yield from self._look_again(image, carry_out)

    def _look_again(self, image: MetadataImage, carry_out: CarryOut) -> TakeUp:
        for name, topic in image.topics.items():
            yield from self._update_topic(name, topic, carry_out)
        carry_out(Changes([], [], []))

    def _update_topic(self, name: str, topic: TopicImage, carry_out: CarryOut) -> TakeUp:
        key = name.encode()
        row = self.by_name.get(key)
        if row is None:
            row = self.by_name[key] = self.by_id[topic.topic_id.bytes] = TopicRow(topic)
        row.image = topic
        for index, image in enumerate(topic.partitions):
            changes = Changes([], [], [], more=True)
            self._update_partition(row, index, image, changes)
            if changes.moved or changes.touched or changes.deleted:
                carry_out(changes)
            yield

    def _update_partition(self, row: TopicRow, index: int, image: PartitionImage, changes: Changes) -> None:
        partition = row.partitions.get(index)
        if self.node_id not in image.replicas:
            if partition is not None:  # reassigned to others
                changes.deleted.append(row.partitions.pop(index))
            return
        name, topic_id = row.image.name, row.image.topic_id
        if partition is None:
            partition = row.partitions[index] = self._new(name, topic_id, index)
        elif partition.partition_epoch == image.partition_epoch and partition.leader_epoch == image.leader_epoch:
            return
        if partition.unplaced or not partition.offline:
            partition.offline = partition.unplaced = not self._place(name, topic_id, index, image)
        self._take_up(partition, image, changes)

    def place_again(self) -> None:
        """Configs have changed: they may allow to give up the records of a log dir that is not there."""
        for row in self.by_name.values():
            for index, partition in row.partitions.items():
                if partition.unplaced and self._place(
                    partition.topic, partition.topic_id, index, row.image.partitions[index]
                ):
                    partition.offline = partition.unplaced = False

    def set_aside(self, partition: Partition) -> Changes:
        """Its log is in a thread's hands now: until `recovered` it neither leads nor follows."""
        assert partition.recovering
        self._apply(
            partition, self.by_name[partition.topic.encode()].image.partitions[partition.index], Changes([], [], [])
        )
        return Changes([partition], [], [])

    def recovered(self, keys: Iterable[TopicPartition]) -> Changes:
        """Logs may have been recovered, or it is their turn to be opened: their partitions take up what the image
        gives them now.
        """
        changes = Changes([], [], [])
        for topic, index in keys:
            row = self.by_name.get(topic.encode())
            partition = None if row is None else row.partitions.get(index)
            if row is not None and partition is not None and partition.recovering:
                self._take_up(partition, row.image.partitions[index], changes)
        return changes

    def _take_up(self, partition: Partition, image: PartitionImage, changes: Changes) -> None:
        """What may have a log to wait for follows the image when it is there."""
        if partition.opened is not None:
            partition.recovering = False  # somebody who could not wait has opened it
        elif not partition.offline:
            partition.recovering = self._waits(partition, image)
        self._apply(partition, image, changes)

    def _waits(self, partition: Partition, image: PartitionImage) -> bool:
        """Whether its log is another thread's now, or is to be opened for the lead of it, and not yet."""
        topic, index = partition.topic, partition.index
        if self._recoveries is not None and self._recoveries.holds(topic, partition.topic_id, index):
            return True
        opens = image.leader == self.node_id and len(image.replicas) > 1 and self.node.may_lead(image.replicas)
        return opens and self._openings is not None and self._openings.waits(topic, index)

    def _apply(self, partition: Partition, image: PartitionImage, changes: Changes) -> None:
        if image.leader == self.node_id and not self.node.may_lead(image.replicas):
            partition.apply(replace(image, leader=-1))
            partition.partition_epoch = -1  # the next look, at the latest that of release, takes it up
            return
        if partition.offline:
            partition.apply(replace(image, leader=-1))
            return
        if partition.recovering:
            if partition.apply(replace(image, leader=-1)):
                changes.moved.append(partition)  # it may have followed another until now
            return
        try:
            moved = partition.apply(image)
        except OSError:
            partition.leader = -1  # without its log it can neither lead nor follow
            moved = True
        (changes.moved if moved else changes.touched).append(partition)

    def _new(self, name: str, topic_id: UUID, index: int) -> Partition:
        return Partition(
            name,
            topic_id,
            index,
            partial(self._open_log, name, topic_id, index),
            self.node,
            partial(self._checkpointed, name, index),
        )

"""The log directory of each replica: found or chosen, and reported to the controller where the image differs (KIP-858).

A dir that was taken out of log.dirs or lost has its replicas copied from their leaders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol
from uuid import UUID

from tailrace.log.directory.log_dir import LogDir
from tailrace.metadata.directories import LOST, MIGRATING, UNASSIGNED, directory_of
from tailrace.metadata.image import MetadataImage, PartitionImage
from tailrace.metadata.records import NO_LEADER
from tailrace_broker.directories.storage import Storage
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.partitions.topics import Topics


class Accounts(Protocol):
    """The way of directories to the controller: directories/assignments.py."""

    def assign(self, replica: tuple[UUID, int], directory_id: UUID) -> None:
        """As Assignments.assign."""

    def settled(self, replica: tuple[UUID, int]) -> None:
        """As Assignments.settled."""


class ReplicaDirs:
    """The replicas of one broker."""

    def __init__(
        self, node_id: int, image: Callable[[], MetadataImage], storage: Storage, assignments: Accounts
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._storage = storage
        self._assignments = assignments

    def place(self, topic: str, topic_id: UUID, index: int, image: PartitionImage) -> bool:
        """Finds the partition's log dir; whether that is online.

        A replica without another leader is waited for where its dir is missing, as in Kafka, unless the topic would
        rather lose records (unclean.leader.election.enable).
        """
        refilled = image.leader not in (NO_LEADER, self._node_id)
        refilled = refilled or self._storage.topic_config(topic).unclean_leader_election_enable
        assigned = directory_of(image, self._node_id)
        log_dir = self._storage.place(topic, topic_id, index, assigned, refilled=refilled)
        self._report(topic, topic_id, index, image)
        return log_dir is not None and log_dir.failure is None

    def report(self, partition: Partition) -> None:
        """Reports to the controller where the replica lies, if its image says otherwise."""
        image = self._image().partition(partition.topic, partition.index)
        if image is not None and partition.offline:
            self._report(partition.topic, partition.topic_id, partition.index, image)
        elif image is not None:
            self.place(partition.topic, partition.topic_id, partition.index, image)

    def _report(self, topic: str, topic_id: UUID, index: int, image: PartitionImage) -> None:
        """Also that a replica which the controller knows in no directory yet is in none that is online."""
        assigned, log_dir = directory_of(image, self._node_id), self._storage.place_of(topic, index)
        if log_dir is not None and assigned == log_dir.directory_id:
            self._assignments.settled((topic_id, index))
        elif log_dir is not None and log_dir.failure is None:
            self._assignments.assign((topic_id, index), log_dir.directory_id)
        elif log_dir is not None or assigned in (None, UNASSIGNED, MIGRATING):
            self._assignments.assign((topic_id, index), LOST)

    def deleted(self, partition: Partition) -> None:
        """The replica is no longer here."""
        self._assignments.settled((partition.topic_id, partition.index))


async def note_high_watermarks(topics: Topics, storage: Storage, partitions: Iterable[Partition]) -> list[LogDir]:
    """Notes in log dirs how far retention may go and what the next checkpoint holds; the log dirs it concerned."""
    concerned: dict[LogDir, bool] = {}
    async for partition in topics.each(partitions):
        log_dir = storage.place_of(partition.topic, partition.index)
        if partition.opened is not None and log_dir is not None and log_dir.failure is None:
            log_dir.high_watermarks[partition.topic, partition.index] = partition.high_watermark
            concerned[log_dir] = True
    return list(concerned)

"""Metadata images, carried out: new leaders, new configs, deleted topics, failed log dirs (BrokerMetadataPublisher).

One image after the other; what has to wait for its log follows the image as it is when the log is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from structlog.typing import FilteringBoundLogger

from tailrace.errors import ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.log import Log
from tailrace.metadata.image import MetadataImage
from tailrace.net.metadata.follower import MetadataFollower
from tailrace_broker.directories.disk_pressure import DiskPressure
from tailrace_broker.directories.moves import DirMoves
from tailrace_broker.directories.replica_dirs import ReplicaDirs
from tailrace_broker.directories.storage import Storage
from tailrace_broker.dynamic_config import DynamicBrokerConfig
from tailrace_broker.partitions.opening import Openings
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.partitions.recovery import Recoveries
from tailrace_broker.partitions.topics import Changes, TakeUp, Topics
from tailrace_broker.partitions.wakeups import WakeUps


class BrokerMetadataPublisher:
    """Of one broker; subscribers get the partitions that changed."""

    def __init__(
        self,
        follower: MetadataFollower,
        config: DynamicBrokerConfig,
        log: FilteringBoundLogger,
        *,
        topics: Topics,
        storage: Storage,
        pressure: DiskPressure,
        wakeups: WakeUps,
        replica_dirs: ReplicaDirs,
        dir_moves: DirMoves,
        recoveries: Recoveries,
        openings: Openings,
    ) -> None:
        self._follower = follower
        self._config = config
        self._log = log
        self._topics = topics
        self._storage = storage
        self._pressure = pressure
        self._wakeups = wakeups
        self._replica_dirs = replica_dirs
        self._dir_moves = dir_moves
        self.recoveries = recoveries
        self.openings = openings
        self._node = topics.node
        self._strays_are_aside = False
        self._subscribers: list[Callable[[Changes], None]] = []
        recoveries.subscribe(self._take_up)
        openings.subscribe(self._take_up)

    def subscribe(self, subscriber: Callable[[Changes], None]) -> None:
        """Calls it with each piece of what an image brings, once that is carried out."""
        self._subscribers.append(subscriber)

    async def begin(self) -> None:
        """Takes up the image that is there, and from then on each that follows."""
        await self._follower.begin(self.on_image)

    async def end(self) -> None:
        """Follows no image any more."""
        await self._follower.end(self.on_image)

    async def on_epoch(self, epoch: int) -> None:
        """This life of the broker was registered."""
        self._node.broker_epoch = epoch
        if not (self._node.leads_shared and self._strays_are_aside):
            await self._follower.again(self.on_image)  # it may have come before the registration's answer

    async def on_unreachable(self) -> None:
        """No controller answered this life's registration: what has no other replica is led on as the image says."""
        if not self._node.leads_alone:
            self._log.warning("no controller is reached: leads what has no other replica, in the leader epoch it had")
            await self._follower.again(lambda _, image: self._topics.release_alone(image, self._carry_out))

    def on_image(self, old: MetadataImage, new: MetadataImage) -> TakeUp:
        """Follows the metadata image: new leaders, new configs, deleted topics. One image after the other."""
        if old.configs is not new.configs and self._config.follow(old, new):
            self._pressure.reconfigure(self._config.current)
        self._storage.follow(old, new, self._config.current)
        self._node.brokers = new.brokers
        yield from self._topics.update(old, new, self._carry_out)
        if old.configs is not new.configs:  # flush.ms may be among them
            self._node.changed.update(p for p in self._topics.partitions() if p.opened is not None)
            self._topics.place_again()
        if not self._node.leads_shared and self._registered(new):
            yield from self._topics.release(new, self._carry_out)
        if old.topics is not new.topics:
            self._dir_moves.resume()
        if not self._strays_are_aside and self._registered(new):
            self._strays_are_aside = True
            self._storage.put_strays_aside(new, self._node.node_id)

    def _registered(self, image: MetadataImage) -> bool:
        """Whether the image knows this life of the broker, and so has decided what it leads."""
        broker = image.brokers.get(self._node.node_id)
        return broker is not None and broker.broker_epoch == self._node.broker_epoch >= 0

    def _carry_out(self, changes: Changes) -> None:
        """A piece of what an image brought."""
        for partition in changes.deleted:
            self._replica_dirs.deleted(partition)
            self._dir_moves.cancel(partition)
            partition.leader = -1
            partition.leading = None
            partition.close()
            self._storage.delete(partition.topic, partition.topic_id, partition.index)
        self._follow(changes)

    def change_log(self, partition: Partition, change: Callable[[Log], None]) -> bool:
        """Has a thread change a follower's log, see Recoveries.change; False where that has to be done at once."""
        if partition in self._dir_moves.moves or not self.recoveries.change(partition, change):
            return False
        self._follow(self._topics.set_aside(partition))
        return True

    def _take_up(self, keys: Iterable[TopicPartition]) -> None:
        """Partitions that waited for their log follow the image as it is now."""
        self._follow(self._topics.recovered(keys))
        self._dir_moves.resume()

    def _follow(self, changes: Changes) -> None:
        """Wakes what waits for these partitions, and passes the changes on."""
        if not changes.more:
            self._wakeups.flusher.settle_all(self._storage.dirs)
        for partition in (*changes.moved, *changes.deleted):
            self._wakeups.refuse(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for partition in (*changes.moved, *changes.touched):
            if partition.syncing:  # its log was opened just now
                self._wakeups.flusher.request(partition)
        for partition in changes.touched:
            self._wakeups.committed(partition)
            partition.settle_deletions()  # a replica that has not given the records up may be gone
        self._publish(changes)

    def _publish(self, changes: Changes) -> None:
        for subscriber in self._subscribers:
            subscriber(changes)

    def on_dir_failed(self, log_dir: LogDir) -> None:
        """Nothing of what lies there is acknowledged, served or followed any more."""
        self._dir_moves.dir_failed(log_dir)
        gone = [p for p in self._topics.partitions() if self._storage.place_of(p.topic, p.index) is log_dir]
        for partition in gone:
            self._dir_moves.cancel(partition)
            partition.go_offline()
            self._replica_dirs.report(partition)
            self._wakeups.refuse(partition, ErrorCode.KAFKA_STORAGE_ERROR)
        self._publish(Changes(gone, [], []))

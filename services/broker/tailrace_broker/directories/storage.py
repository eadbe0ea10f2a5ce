"""The broker's log directories: which partition lives where, its configs, and the work that goes on behind requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final
from uuid import UUID

from tailrace.config import Config, TopicConfig
from tailrace.kafka.resources import ConfigResource
from tailrace.log.directory.log_dir import LogDir, LogDirRefused
from tailrace.log.directory.pending_recovery import Recovery
from tailrace.log.filesystem.guard import DirectoryOffline
from tailrace.log.log import Log
from tailrace.metadata.directories import directory_of
from tailrace.metadata.image import MetadataImage, changed
from tailrace.metadata.names import CLUSTER_METADATA
from tailrace_broker.directories.placement import Dir, choose

_NOTHING_KNOWN: Final = MetadataImage()


class Storage:
    """Several log dirs behind one face. A new partition goes to the dir with the fewest, as in Kafka.

    A dir whose disk fails is offline until the next start (KIP-858): what lies there is neither read nor written.
    """

    def __init__(
        self,
        dirs: Sequence[LogDir],
        config: Config,
        wall_ms: Callable[[], int],
        known: MetadataImage = _NOTHING_KNOWN,
    ) -> None:
        """known: the image that the start begins with, which may be of an earlier life."""
        self.configured = tuple(dirs)
        self._subscribers: list[Callable[[LogDir], object]] = []
        self._config = config
        self._wall_ms = wall_ms
        self._image = MetadataImage()
        self._defaults = TopicConfig.of({}, config)  # of topics that set nothing
        self._topic_configs: dict[str, TopicConfig] = {}  # of one value each: a topic's partitions share it
        self._places: dict[tuple[str, int], LogDir] = {}
        self._twice: dict[tuple[str, int], dict[LogDir, UUID]] = {}  # and the topic id there
        for log_dir in self.dirs:
            for place in log_dir.partitions():
                self._found(place, log_dir, known)
        for log_dir in self.dirs:
            for place in log_dir.futures:
                self._ended_late(place, log_dir)
        if not self.offline:
            self._take_orphans()
        for log_dir in self.dirs:
            log_dir.guard.on_failure = partial(self._failed, log_dir)
        self._held = Counter(self._places.values())

    def _failed(self, log_dir: LogDir, failure: OSError) -> None:
        for subscriber in self._subscribers:
            subscriber(log_dir)

    def subscribe(self, subscriber: Callable[[LogDir], object]) -> None:
        """Calls it with each dir that fails, in whichever thread that was."""
        self._subscribers.append(subscriber)

    def _found(self, place: tuple[str, int], log_dir: LogDir, known: MetadataImage) -> None:
        """A dir may hold what lies in another one too; which is right is told here, or by the image's topic id.

        A move between dirs that a crash or a failed disk ended late leaves two: the one that was written to longer is
        right. While the dir was away the partition may have been deleted and made again elsewhere, or copied again from
        its leader: then the one is right that the controller was told of.
        """
        other = self._places.setdefault(place, log_dir)
        if other is log_dir:
            return
        try:
            first, second = other.topic_id(*place), log_dir.topic_id(*place)
            moved = [one for one in (other, log_dir) if one.futures.moved_here(*place)]
            differ = first is not None and second is not None and first != second
            ends = {one: one.extent(*place) for one in (other, log_dir) if moved and not differ}
        except OSError:  # of a disk that is offline from now on
            self._places[place] = log_dir if other.failure is not None else other
            return
        if first is not None and second is not None and differ:
            self._twice.setdefault(place, {other: first})[log_dir] = second
        elif ends:
            right = max(ends, key=lambda one: (ends[one], one in moved))
            self._places[place] = right
            self.sweep(place, other if right is log_dir else log_dir, right)
        elif first is not None and (named := self._named_by(known, place, first, (other, log_dir))) is not None:
            self._places[place] = named
            with suppress(OSError):  # of a disk that is offline from now on
                (other if named is log_dir else log_dir).put_aside(
                    *place, "the controller knows it in another directory"
                )
        else:
            name = f"{place[0]}-{place[1]}"
            raise LogDirRefused(f"{name} is in both {other.path} and {log_dir.path}: take the one out of date away")

    def _named_by(
        self, known: MetadataImage, place: tuple[str, int], topic_id: UUID, dirs: tuple[LogDir, LogDir]
    ) -> LogDir | None:
        """In which of two dirs the image has this broker's replica."""
        partition, topic = known.partition(*place), known.topics.get(place[0])
        if partition is None or topic is None or topic.topic_id != topic_id:
            return None
        assigned = directory_of(partition, self._config.node_id)
        return next((one for one in dirs if one.directory_id == assigned), None)

    def sweep(self, place: tuple[str, int], stale: LogDir, right: LogDir) -> None:
        """At the start: what a move left behind goes; if a disk fails over it, the next start does it."""
        with suppress(OSError):
            stale.delete(*place, self._wall_ms())
            stale.settle()
            right.futures.moved_from_is_gone(*place)

    def take_away(self, place: tuple[str, int], stale: LogDir) -> bool:
        """What a move left behind goes, as long as that disk lets it. Settle the dir before you say `swept`."""
        try:
            stale.delete(*place, self._wall_ms())
        except OSError:
            return False
        return True

    def swept(self, place: tuple[str, int], right: LogDir) -> None:
        """Nothing out of date is left of the partition, also after a crash."""
        with suppress(OSError):
            right.futures.moved_from_is_gone(*place)

    def _ended_late(self, place: tuple[str, int], log_dir: LogDir) -> None:
        """A copy that had taken over when the power went, before its new name was on the disk, takes over now."""
        present = self._places.get(place)
        if present is None or present is log_dir:
            return
        with suppress(OSError):  # of a disk that is offline from now on
            if not log_dir.futures.is_marked(*place) or log_dir.futures.topic_id(*place) != present.topic_id(*place):
                return
            if log_dir.future_extent(*place) > present.extent(*place):
                log_dir.promote(*place)
                self._places[place] = log_dir
                self.sweep(place, present, log_dir)

    def _take_orphans(self) -> None:
        """Copies whose originals are nowhere: somebody took them away, and this is all there is."""
        for log_dir in self.dirs:
            with suppress(OSError):  # of a disk that is offline from now on
                log_dir.promote_orphans(self._places.__contains__)
            self._places.update({place: log_dir for place in log_dir.partitions() if place not in self._places})

    @property
    def dirs(self) -> tuple[LogDir, ...]:
        """Those that are online."""
        return tuple(log_dir for log_dir in self.configured if log_dir.failure is None)

    @property
    def offline(self) -> tuple[LogDir, ...]:
        """Those that failed, or could not be opened."""
        return tuple(log_dir for log_dir in self.configured if log_dir.failure is not None)

    @property
    def closed_epoch(self) -> int:
        """The broker epoch under which all dirs were closed cleanly and lost nothing; -1 if one was not, or is new."""
        closed = (
            log_dir.last_shutdown.broker_epoch if log_dir.last_shutdown.clean else -1 for log_dir in self.configured
        )
        return -1 if self.offline else min(closed)

    @property
    def closed_offset(self) -> int:
        """The metadata offset that the broker had followed then (cached_image.py); -1 if a dir does not say."""
        offsets = {log_dir.last_shutdown.metadata_offset for log_dir in self.configured}
        return offsets.pop() if len(offsets) == 1 else -1

    @property
    def previous_epoch(self) -> int:
        """What a registration says of the life before (KIP-966): -1 unless every dir was closed cleanly."""
        return -1 if self.offline else min(log_dir.last_shutdown.broker_epoch for log_dir in self.configured)

    def topic_config(self, topic: str) -> TopicConfig:
        """A topic's effective configs under the present image."""
        config = self._topic_configs.get(topic)
        if config is None:
            overrides = self._image.config(ConfigResource.TOPIC, topic)
            config = TopicConfig.of(overrides, self._config) if overrides else self._defaults
            self._topic_configs[topic] = config
        return config

    def follow(self, old: MetadataImage, new: MetadataImage, config: Config) -> None:
        """Takes up changed topic configs and broker defaults; logs that are open get theirs, all together."""
        self._image = new
        everything = config is not self._config
        self._config = config
        if old.configs is new.configs and not everything:
            return
        keys = [key for key in changed(old.configs, new.configs) if old.configs.get(key) != new.configs.get(key)]
        names = {name for kind, name in keys if kind == ConfigResource.TOPIC}
        if everything:
            self._defaults = TopicConfig.of({}, config)
            self._topic_configs.clear()
            names.update(topic for topic, _ in self._places)
            for log_dir in self.dirs:
                log_dir.set_producer_id_expiration(config.producer_id_expiration_ms)
        configs = dict[str, TopicConfig]()
        for name in names:
            self._topic_configs.pop(name, None)
            configs[name] = self.topic_config(name)
        for log_dir in self.dirs:
            log_dir.set_configs(configs)

    def place(
        self, topic: str, topic_id: UUID, index: int, assigned: UUID | None = None, *, refilled: bool = True
    ) -> LogDir | None:
        """Where the partition lives, or from now on shall; None where it lies on a dir that is offline or not there.

        assigned is the directory that the image says (KIP-858), None where it says nothing; see choose.
        """
        if (topic, index) in self._twice:
            self._choose(topic, topic_id, index)
        present = self._places.get((topic, index))
        if present is not None and present.failure is None:
            return present
        dirs = [Dir(one.directory_id, one.failure is None, self._held[one]) for one in self.configured]
        at = choose(dirs, None if present is None else self.configured.index(present), assigned, refilled=refilled)
        if at is None:
            return None
        log_dir = self.configured[at]
        if log_dir is not present:
            self._put(topic, index, log_dir)
        return log_dir

    def _choose(self, topic: str, topic_id: UUID, index: int) -> None:
        """Of the dirs that hold partitions of one name, that of this topic id."""
        for log_dir, found in self._twice[topic, index].items():
            if found == topic_id and log_dir.holds(topic, index):
                self._put(topic, index, log_dir)

    def _put(self, topic: str, index: int, log_dir: LogDir) -> None:
        self._forget(topic, index)
        self._places[topic, index] = log_dir
        self._held[log_dir] += 1

    def open(self, topic: str, topic_id: UUID, index: int) -> Log:
        """Opens or creates one partition's log. A directory of another topic of that name is put aside, not deleted:
        a topic that was deleted while the broker was down, or a topic id that a disk has damaged (LogDir.claim).

        Raises DirectoryOffline where its dir is offline, OSError where the disk refuses.
        """
        log_dir = self._claim(topic, topic_id, index)
        return log_dir.create(topic, index, topic_id, self.topic_config(topic))

    def begin_recovery(self, topic: str, topic_id: UUID, index: int) -> Recovery | None:
        """The recovery of a partition's log in a thread, None if there is nothing to recover. Raises as open does."""
        log_dir = self._claim(topic, topic_id, index)
        if (topic, index) not in log_dir.tails.waiting:
            return None
        return log_dir.begin_recovery(topic, index, self.topic_config(topic))

    def measure_tails(self) -> None:
        """Finds the logs that are to be recovered in threads; call it before anything else, in a thread, too."""
        for log_dir in self.dirs:
            with suppress(OSError):  # of a disk that is offline from now on
                log_dir.measure_tails()

    def _claim(self, topic: str, topic_id: UUID, index: int) -> LogDir:
        """The dir of a partition, in which nothing of another topic has its name any more."""
        log_dir = self._places.get((topic, index)) or self.place(topic, topic_id, index)
        if log_dir is None:
            raise DirectoryOffline(next(one.failure for one in self.offline if one.failure is not None))
        log_dir.guard.check()
        log_dir.claim(topic, index, topic_id)
        for other in self._twice.pop((topic, index), ()):
            if other is not log_dir and other.holds(topic, index):
                with suppress(OSError):  # of another disk
                    other.delete(topic, index, self._wall_ms())
        return log_dir

    def delete(self, topic: str, topic_id: UUID, index: int) -> None:
        """Gives a deleted partition's files up; they go after file.delete.delay.ms. Those on an offline dir stay."""
        log_dir = self._places.get((topic, index))
        if log_dir is None:
            return
        try:
            log_dir.guard.check()
            if log_dir.holds(topic, index):
                if log_dir.topic_id(topic, index) not in (None, topic_id):
                    return
                log_dir.delete(topic, index, self._wall_ms())
        except OSError as failed:
            log_dir.guard.note(failed)
            if log_dir.failure is None:
                return  # not the disk's fault: the next topic of this name puts it aside
        self._forget(topic, index)

    def put_strays_aside(self, image: MetadataImage, node_id: int) -> None:
        """What lies in the dirs that are online and is no replica of this broker: its topic was deleted, or others were
        given it, while its dir was away. Call it with an image that knows this life of the broker.

        Should the partition come back to this broker, its old log must not: the others may have dropped the tombstones
        of its keys by now.
        """
        for place in [place for place in self._places if not _is_replica(image, place, node_id)]:
            for log_dir in self._twice.pop(place, (self._places[place],)):
                with suppress(OSError):  # of a disk that is offline from now on
                    if log_dir.failure is None and log_dir.holds(*place):
                        log_dir.put_aside(*place, "the controller knows no such replica of this broker")
            self._forget(*place)
        for log_dir in self.dirs:
            for place in [place for place in log_dir.futures if not _is_replica(image, place, node_id)]:
                with suppress(OSError):
                    log_dir.futures.drop(*place, self._wall_ms())

    def named(self, path: str) -> LogDir | None:
        """The configured dir of that path, which is compared as text, as Kafka does."""
        return next((one for one in self.configured if one.path == path), None)

    def prefer(self, topic: str, index: int, log_dir: LogDir) -> bool:
        """Puts a partition of which nothing was written yet into a dir; whether that could be done."""
        present = self._places.get((topic, index))
        if present is None or present.failure is not None or present.holds(topic, index):
            return False
        self._put(topic, index, log_dir)
        return True

    def swap(self, topic: str, index: int, log_dir: LogDir, log: Log, high_watermark: int) -> LogDir:
        """The complete copy in log_dir takes the partition's place. Raises OSError of log_dir.

        The answer is the dir it lay in: flush the copy, then `sweep` the old files there. A start in between believes
        the one of the two that was written to longer.
        """
        present = self._places[topic, index]
        log_dir.adopt_future(topic, index, log, high_watermark)
        self._put(topic, index, log_dir)
        return present

    def _forget(self, topic: str, index: int) -> None:
        log_dir = self._places.pop((topic, index), None)
        if log_dir is not None:
            self._held[log_dir] -= 1

    def holds_data(self, topic: str, index: int) -> bool:
        """Whether the partition has a directory that can be read, without opening it."""
        log_dir = self._places.get((topic, index))
        return log_dir is not None and log_dir.failure is None and log_dir.holds(topic, index)

    def has_work(self, topic: str, index: int, now_ms: int) -> bool:
        """Whether retention or compaction may have something to do in a log that is not open."""
        log_dir = self._places.get((topic, index))
        if log_dir is None or log_dir.failure is not None or not log_dir.holds(topic, index):
            return False
        return log_dir.has_work(topic, index, self.topic_config(topic), now_ms)

    def checkpointed(self, topic: str, index: int) -> int:
        """The high watermark that the partition's dir was last told, 0 if none."""
        log_dir = self._places.get((topic, index))
        return 0 if log_dir is None else log_dir.high_watermarks.get((topic, index), 0)

    def place_of(self, topic: str, index: int) -> LogDir | None:
        """The log dir a partition lives in, also one that is offline."""
        return self._places.get((topic, index))

    def placed(self) -> Iterable[tuple[LogDir, list[tuple[str, int]]]]:
        """Each configured log dir with its partitions, sorted."""
        held: dict[LogDir, list[tuple[str, int]]] = {log_dir: [] for log_dir in self.configured}
        for place, log_dir in self._places.items():
            held[log_dir].append(place)
        for log_dir, places in held.items():
            yield log_dir, sorted(places)

    def close(self, broker_epoch: int, metadata_offset: int = -1) -> None:
        """Flushes, checkpoints and marks every dir that is online as cleanly shut down; raises no error of a disk.

        For a thread; nothing may be appended or deleted any more.
        """
        for log_dir in self.configured:
            try:
                log_dir.guard.check()
                log_dir.close(broker_epoch, metadata_offset)
            except OSError as failed:
                log_dir.fail(failed)
                log_dir.release()


def _is_replica(image: MetadataImage, place: tuple[str, int], node_id: int) -> bool:
    partition = image.partition(*place)
    return place[0] == CLUSTER_METADATA or (partition is not None and node_id in partition.replicas)

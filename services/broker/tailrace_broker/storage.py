"""The broker's log directories: which partition lives where, its configs, and the work that goes on behind requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from tailrace.config import Config, TopicConfig
from tailrace.log.log import Log
from tailrace.log.logs import LogDir
from tailrace.metadata.image import MetadataImage

TOPIC, BROKER = 2, 4


class Storage:
    """Several log dirs behind one face. A new partition goes to the dir with the fewest, as in Kafka."""

    def __init__(self, dirs: Sequence[LogDir], config: Config, wall_ms: Callable[[], int]) -> None:
        self.dirs = tuple(dirs)
        self._config = config
        self._wall_ms = wall_ms
        self._image = MetadataImage()
        self._topic_configs: dict[str, TopicConfig] = {}  # of one value each: a topic's partitions share it
        self._places = {place: log_dir for log_dir in dirs for place in log_dir.partitions()}

    @property
    def closed_epoch(self) -> int:
        """The broker epoch under which all dirs were closed cleanly and lost nothing; -1 if one was not, or is new."""
        return min(log_dir.clean_shutdown_epoch if log_dir.clean else -1 for log_dir in self.dirs)

    def topic_config(self, topic: str) -> TopicConfig:
        """A topic's effective configs under the present image."""
        config = self._topic_configs.get(topic)
        if config is None:
            config = self._topic_configs[topic] = TopicConfig.of(self._image.config(TOPIC, topic), self._config)
        return config

    def follow(self, old: MetadataImage, new: MetadataImage, config: Config) -> None:
        """Takes up changed topic configs and broker defaults; logs that are open get theirs at once."""
        self._image = new
        everything = config is not self._config
        self._config = config
        if old.configs is new.configs and not everything:
            return
        self._topic_configs.clear()
        names = {name for kind, name in old.configs.keys() | new.configs.keys() if kind == TOPIC}
        changed = [n for n in names if everything or old.configs.get((TOPIC, n)) != new.configs.get((TOPIC, n))]
        if everything:
            changed = list({topic for topic, _ in self._places} | set(changed))
        for name in changed:
            topic_config = self.topic_config(name)
            for log_dir in self.dirs:
                log_dir.set_config(name, topic_config)

    def open(self, topic: str, topic_id: UUID, index: int) -> Log:
        """Opens or creates one partition's log. A directory of an older topic of that name is put aside."""
        log_dir = self._places.get((topic, index))
        now_ms = self._wall_ms()
        if log_dir is not None and log_dir.topic_id(topic, index) not in (None, topic_id):
            log_dir.delete(topic, index, now_ms)
            log_dir = None
        if log_dir is None:
            held = list(self._places.values())
            log_dir = min(self.dirs, key=held.count)
        self._places[topic, index] = log_dir
        return log_dir.create(topic, index, topic_id, self.topic_config(topic))

    def delete(self, topic: str, topic_id: UUID, index: int) -> None:
        """Gives a deleted partition's files up; they go after file.delete.delay.ms."""
        log_dir = self._places.get((topic, index))
        if log_dir is None or log_dir.topic_id(topic, index) not in (None, topic_id):
            return
        del self._places[topic, index]
        log_dir.delete(topic, index, self._wall_ms())

    def holds_data(self, topic: str, index: int) -> bool:
        """Whether the partition has a directory, without opening it."""
        return (topic, index) in self._places

    def checkpointed(self, topic: str, index: int) -> int:
        """The high watermark that the partition's dir was last told, 0 if none."""
        log_dir = self._places.get((topic, index))
        return 0 if log_dir is None else log_dir.high_watermarks.get((topic, index), 0)

    def place_of(self, topic: str, index: int) -> LogDir | None:
        """The log dir a partition lives in."""
        return self._places.get((topic, index))

    def placed(self) -> Iterable[tuple[LogDir, list[tuple[str, int]]]]:
        """Each log dir with its partitions, sorted."""
        for log_dir in self.dirs:
            yield log_dir, sorted(place for place, where in self._places.items() if where is log_dir)

    def close(self, broker_epoch: int) -> None:
        """Flushes, checkpoints and marks every dir as cleanly shut down."""
        for log_dir in self.dirs:
            log_dir.close(broker_epoch)

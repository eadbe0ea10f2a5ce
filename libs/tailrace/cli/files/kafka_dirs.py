"""The log directories of a stopped Apache Kafka cluster: whose they are, and whether they may be taken over."""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from tailrace.cli.data_dir import UpRefused
from tailrace.cli.files import moved
from tailrace.inspect import files, kafka_metadata
from tailrace.kafka.ids import TopicPartition, format_uuid, parse_uuid
from tailrace.kafka.topics import CLUSTER_METADATA_TOPIC
from tailrace.log.filesystem import checkpoints
from tailrace.log.segment.segment import LOG_SUFFIX
from tailrace.metadata.codec import MalformedRecord
from tailrace.metadata.kraft import Replayed
from tailrace.records.batch import HEADER_SIZE, MAGIC, read_header

_DIRECTORY_VERSION = "1"  # meta.properties of KRaft; 0 was ZooKeeper's


@dataclass(frozen=True)
class KafkaDirectory:
    """One entry of log.dirs."""

    path: Path
    cluster_id: str
    node_id: int
    directory_id: UUID
    broker_epoch: int | None  # None: not shut down cleanly
    partitions: dict[TopicPartition, Path] = field(default_factory=dict)
    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    @property
    def has_metadata(self) -> bool:
        return (self.path / kafka_metadata.DIRECTORY).is_dir()

    def offset(self, name: str, place: TopicPartition) -> int:
        """What a checkpoint says of a partition, 0 if nothing."""
        return self.offsets.get(name, {}).get(place, 0)


def refuse_repeated(paths: Sequence[Path]) -> None:
    """UpRefused where a directory is named twice, also by another way to it."""
    named: dict[Path, Path] = {}
    for path in paths:
        other = named.setdefault(path.resolve(), path)
        if other is not path:
            same = "twice" if other == path else f"twice, as {other} and as {path}"
            raise UpRefused(f"{path.resolve()} is named {same}: name each directory once.")


def _identity(path: Path) -> tuple[str, int, UUID]:
    """Cluster, node and directory as meta.properties says; UpRefused where it is no stopped Kafka's."""
    name = path / checkpoints.META_PROPERTIES
    try:
        properties = checkpoints.parse_properties(name.read_bytes())
        version = properties.get("version")
        if version != _DIRECTORY_VERSION or "cluster.id" not in properties or "node.id" not in properties:
            raise UpRefused(
                f"{path} has meta.properties version {version}; only KRaft clusters (version 1) can be imported."
            )
        directory_id = parse_uuid(properties.get("directory.id", format_uuid(UUID(int=0))))
        return properties["cluster.id"], int(properties["node.id"]), directory_id
    except (FileNotFoundError, NotADirectoryError):
        if mark := moved.read(path):
            raise UpRefused(f"What was in {path} was moved to {mark.target}: use that.") from None
        raise UpRefused(
            f"{path} is no log directory of Apache Kafka: it has no {checkpoints.META_PROPERTIES}."
        ) from None
    except ValueError as error:
        raise UpRefused(f"{name} cannot be read: {error}.") from None


def read(path: Path, *, unclean: bool) -> KafkaDirectory:
    """Reads one directory's own files; UpRefused where it is no stopped Kafka's (or crashed). OSError."""
    cluster_id, node_id, directory_id = _identity(path)
    epoch = None
    with suppress(FileNotFoundError):
        epoch = checkpoints.parse_clean_shutdown((path / checkpoints.CLEAN_SHUTDOWN).read_bytes()).broker_epoch
    found = KafkaDirectory(path, cluster_id, node_id, directory_id, epoch)
    for directory in files.partitions(path):
        place = files.partition_of(directory)
        if place is not None and place[0] != CLUSTER_METADATA_TOPIC:
            found.partitions[place] = directory
    if found.partitions and epoch is None and not unclean:
        raise UpRefused(
            f"{path} was not shut down cleanly: start that Kafka once more and stop it, or import what a recovery "
            "finds with --unclean."
        )
    for name in files.OFFSET_CHECKPOINTS:
        try:
            content = (path / name).read_bytes()
            # Kafka makes the files empty at its first start, and writes them at its first checkpoint.
            found.offsets[name] = checkpoints.parse_offsets(content) if content else {}
        except FileNotFoundError:
            continue
        except ValueError as error:
            raise UpRefused(f"{path / name} cannot be read: {error}.") from None
    for place, directory in found.partitions.items():
        _refuse_old_batches(directory, place)
    return found


def _refuse_old_batches(directory: Path, place: TopicPartition) -> None:
    for log in directory.glob(f"*{LOG_SUFFIX}"):
        with log.open("rb") as file:
            start = file.read(HEADER_SIZE)
        if len(start) == HEADER_SIZE and read_header(start).magic != MAGIC:
            raise UpRefused(
                f"{log} holds records of magic {read_header(start).magic}, from before Kafka 0.11; "
                f"copy {place[0]} to a new topic in that Kafka and delete it, then import."
            )


@contextmanager
def held(paths: Iterable[Path]) -> Iterator[None]:
    """Holds the directories' locks, so that no Kafka starts on them meanwhile; UpRefused where one runs."""
    with ExitStack() as stack:
        for path in paths:
            with suppress(FileNotFoundError, NotADirectoryError):
                lock = stack.enter_context((path / checkpoints.LOCK).open("rb"))
                try:  # Java locks by fcntl(2), Tailrace by flock(2)
                    fcntl.lockf(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:
                    raise UpRefused(f"A broker runs on {path}: stop it first.") from None
        yield


def metadata(directories: Iterable[KafkaDirectory]) -> Replayed:
    """The cluster's metadata, from the directory that knows most of it."""
    best: Replayed | None = None
    for directory in directories:
        if not directory.has_metadata:
            continue
        try:
            found = kafka_metadata.replay(directory.path)
        except MalformedRecord as unknown:
            raise UpRefused(f"{directory.path} has metadata that this Tailrace does not know: {unknown}.") from None
        except (ValueError, AssertionError, KeyError) as error:
            raise UpRefused(f"The metadata in {directory.path} cannot be read: {error}.") from None
        if best is None or (found.image.epoch, found.image.offset) > (best.image.epoch, best.image.offset):
            best = found
    if best is None:
        raise UpRefused(
            "None of the directories has the cluster's metadata (__cluster_metadata-0): name its directory, too."
        )
    return best

"""Reading whole log directories for what is wrong in them, without changing a byte: for `tailrace verify-log`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

from tailrace.inspect import files
from tailrace.inspect.findings import Finding, PartitionFacts
from tailrace.inspect.verify_partition import verify_partition
from tailrace.kafka.ids import TopicPartition, format_uuid, parse_uuid
from tailrace.kafka.topics import CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS
from tailrace.log.directory.checkpoint_copies import COPY_SUFFIX, decode_copy, true_content
from tailrace.log.filesystem import checkpoints

__all__ = ["Finding", "PartitionFacts", "size_bytes", "verify"]

_NEEDS_ALL: Final = "restore the file from a copy of the directory, or let the broker start: it checks every log anew"
_MIGHT_MOVE: Final = "stop the broker and remove the line; it is written anew"


def size_bytes(directories: list[Path]) -> int:
    """Of all segments: what there is to read."""
    return sum(log.stat().st_size for directory in directories for log in directory.rglob("*.log"))


def verify(
    directory: Path, on_read: Callable[[int], None], compacted_topics: Callable[[Path], Collection[str]] = lambda _: ()
) -> Iterator[Finding]:
    """What is wrong in a log directory, a partition's directory or a whole data directory; on_read gets bytes read.

    compacted_topics is asked, of a log directory, which topics' cleanup.policy has `compact`: their logs lack offsets.
    """
    if files.partition_of(directory) and any(directory.glob("*.log")):
        topics = compacted_topics(directory.absolute().parent)
        try:
            yield from verify_partition(_facts(directory, directory.parent, topics, clean=True), on_read).findings
        except OSError as error:
            yield _unreadable(directory, error)
        return
    for log_directory in files.log_directories(directory):
        if where := files.moved_to(log_directory):
            yield Finding(log_directory, f"was moved to {where}", "check what is there now")
            continue
        yield from _LogDirectory(log_directory, on_read, compacted_topics(log_directory)).findings()


def _unreadable(directory: Path, error: OSError) -> Finding:
    """Nothing can be said of a partition then; the others are read all the same."""
    mine = isinstance(error, PermissionError)
    advice = "run this as the user that the broker runs as" if mine else "see what the system's log says of the disk"
    return Finding(Path(error.filename or directory), f"cannot be read: {_why(error)}", advice)


def _facts(directory: Path, log_directory: Path, topics: Collection[str], *, clean: bool) -> PartitionFacts:
    place = files.partition_of(directory)
    assert place is not None
    cleaned = _offsets(log_directory / checkpoints.CLEANER_OFFSET)
    starts = _offsets(log_directory / checkpoints.LOG_START_OFFSET)
    compacted = place in cleaned or place[0] in topics or place[0] in INTERNAL_TOPICS
    return PartitionFacts(directory, dense=not compacted, clean=clean, log_start_offset=starts.get(place, 0))


def _offsets(path: Path) -> dict[TopicPartition, int]:
    try:
        return checkpoints.parse_offsets(path.read_bytes())
    except (OSError, ValueError):
        return {}


class _LogDirectory:
    """One log directory: its own files, then every partition, then whether both agree."""

    def __init__(self, path: Path, on_read: Callable[[int], None], compacted_topics: Collection[str]) -> None:
        self.path = path
        self.on_read = on_read
        self.compacted_topics = compacted_topics
        self.clean = (path / checkpoints.CLEAN_SHUTDOWN).exists()
        self.offsets: dict[str, dict[TopicPartition, int]] = {}
        self.ends: dict[TopicPartition, tuple[int, int]] = {}  # first offset that is there, end offset
        self.unread: set[TopicPartition] = set()
        self.topic_ids: dict[str, dict[UUID, list[Path]]] = {}

    def findings(self) -> Iterator[Finding]:
        yield from self._properties()
        yield from self._clean_shutdown()
        for name in files.OFFSET_CHECKPOINTS:
            yield from self._read_offsets(name)
        for directory in files.partitions(self.path):
            yield from self._partition(directory)
        yield from self._ids()
        for name, offsets in self.offsets.items():
            yield from self._inside(name, offsets)

    def _properties(self) -> Iterator[Finding]:
        path = self.path / checkpoints.META_PROPERTIES
        try:
            found = checkpoints.parse_properties(path.read_bytes())
            if found.get("version") != "1" or "cluster.id" not in found or not found["node.id"].isdecimal():
                raise ValueError("version 1, cluster.id or node.id is missing")
            _exact_id(found.get("directory.id", format_uuid(UUID(int=1))))
        except (OSError, ValueError, KeyError) as error:
            advice = "write it anew with the cluster.id and node.id of the cluster's other directories"
            yield Finding(path, f"cannot be read as meta.properties: {_why(error)}", advice)

    def _clean_shutdown(self) -> Iterator[Finding]:
        path = self.path / checkpoints.CLEAN_SHUTDOWN
        content = path.read_bytes() if self.clean else b""
        closed = checkpoints.parse_clean_shutdown(content)
        if content and content.strip() != checkpoints.format_clean_shutdown(closed):
            advice = "remove it: the next start then checks every log from its recovery point"
            yield Finding(path, "does not name a broker epoch as Kafka writes it", advice)

    def _read_offsets(self, name: str) -> Iterator[Finding]:
        path = self.path / name
        try:
            content = path.read_bytes()
            if not content and self.clean and name != checkpoints.CLEANER_OFFSET:  # Kafka's, until it has cleaned
                raise checkpoints.DamagedCheckpoint("it is empty after a clean shutdown")
            self.offsets[name] = checkpoints.parse_offsets(content)
            yield from self._copy(name, content)
        except FileNotFoundError:
            if self.clean and name == checkpoints.RECOVERY_POINT:
                yield Finding(path, "is missing after a clean shutdown", _NEEDS_ALL)
        except (OSError, ValueError) as error:
            yield Finding(path, f"cannot be read as a checkpoint: {_why(error)}", _NEEDS_ALL)

    def _copy(self, name: str, content: bytes) -> Iterator[Finding]:
        """Whether the copy says the same; after a crash it may be cut or missing."""
        path = self.path / (name + COPY_SUFFIX)
        try:
            copy = path.read_bytes()
        except FileNotFoundError:
            return
        if decode_copy(copy) is None:
            if self.clean:
                yield Finding(path, "has a wrong CRC-32C", "nothing: it is written anew with the next checkpoint")
        elif true_content(content, copy, checkpoints.parse_offsets) != content:
            yield Finding(self.path / name, "is damaged: its copy says something else", "the next start puts it right")

    def _partition(self, directory: Path) -> Iterator[Finding]:
        place = files.partition_of(directory)
        assert place is not None
        facts = _facts(directory, self.path, self.compacted_topics, clean=self.clean)
        try:
            found = verify_partition(facts, self.on_read)
        except OSError as error:
            self.unread.add(place)
            yield _unreadable(directory, error)
            return
        yield from found.findings
        if place[0] == CLUSTER_METADATA_TOPIC:
            return  # the controllers' log is in no checkpoint and needs no partition.metadata
        self.ends[place] = (found.start_offset, found.end_offset)
        path = directory / checkpoints.PARTITION_METADATA
        try:
            topic_id = _topic_id(path)
        except (OSError, ValueError) as error:
            advice = "write it anew with the topic's id (`tailrace topic describe`)"
            yield Finding(path, f"cannot be read as partition.metadata: {_why(error)}", advice)
        else:
            self.topic_ids.setdefault(place[0], {}).setdefault(topic_id, []).append(path)

    def _ids(self) -> Iterator[Finding]:
        for topic, by_id in self.topic_ids.items():
            if len(by_id) > 1:
                rarest = min(by_id.values(), key=len)
                advice = "compare with `tailrace topic describe` and write the topic's id"
                yield Finding(rarest[0], f"names another topic id than other partitions of {topic}", advice)

    def _inside(self, name: str, offsets: dict[TopicPartition, int]) -> Iterator[Finding]:
        """Checkpoints must lie in the logs they are about."""
        path = self.path / name
        for (topic, partition), offset in offsets.items():
            if (topic, partition) in self.unread:
                continue
            if (topic, partition) not in self.ends:
                yield Finding(path, f"names {topic}-{partition}, which has no directory here", _MIGHT_MOVE)
                continue
            start, end = self.ends[topic, partition]
            # A recovery point below the log's start is right: retention may take what was never looked at again.
            lowest = start if name == checkpoints.LOG_START_OFFSET else 0
            if not lowest <= offset <= end:
                what = f"says {offset} for {topic}-{partition}, whose log holds {start} to {end}"
                yield Finding(path, what, _MIGHT_MOVE)
        if name == checkpoints.RECOVERY_POINT and self.clean:
            for (topic, partition), (_, end) in self.ends.items():
                if offsets.get((topic, partition)) != end:
                    what = f"does not have the end offset {end} of {topic}-{partition} after a clean shutdown"
                    yield Finding(path, what, f"remove {checkpoints.CLEAN_SHUTDOWN}: the next start checks every log")


def _topic_id(path: Path) -> UUID:
    data = path.read_bytes()
    topic_id = checkpoints.parse_partition_metadata(data)
    if data.strip() != checkpoints.format_partition_metadata(topic_id):
        raise ValueError("it is not written as Kafka writes it")
    return topic_id


def _exact_id(text: str) -> None:
    if format_uuid(parse_uuid(text)) != text:
        raise ValueError(f"{text} is no id")


def _why(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)

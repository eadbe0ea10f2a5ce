"""The files of a log directory as a reader finds them: what kind each is by its name, and its bytes, read only."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tailrace.log.directory.checkpoint_copies import COPY_SUFFIX
from tailrace.log.filesystem import checkpoints
from tailrace.log.producers.snapshots import SNAPSHOT_SUFFIX
from tailrace.log.segment.index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from tailrace.log.segment.segment import LOG_SUFFIX
from tailrace.log.segment.transaction_index import TRANSACTION_INDEX_SUFFIX, TRANSACTION_SUMS_SUFFIX
from tailrace.records.batch import Bytes

METADATA_SNAPSHOT_SUFFIX: Final = ".checkpoint"

BY_SUFFIX: Final = {
    LOG_SUFFIX: "segment",
    INDEX_SUFFIX: "offset index",
    TIME_INDEX_SUFFIX: "time index",
    TRANSACTION_INDEX_SUFFIX: "transaction index",
    TRANSACTION_SUMS_SUFFIX: "transaction sums",
    COPY_SUFFIX: "checkpoint copy",
    SNAPSHOT_SUFFIX: "producer snapshot",
    METADATA_SNAPSHOT_SUFFIX: "metadata snapshot",
}
OFFSET_CHECKPOINTS: Final = (
    checkpoints.RECOVERY_POINT,
    checkpoints.LOG_START_OFFSET,
    checkpoints.REPLICATION_OFFSET,
    checkpoints.CLEANER_OFFSET,
)
BY_NAME: Final = {
    **dict.fromkeys(OFFSET_CHECKPOINTS, "offset checkpoint"),
    checkpoints.LEADER_EPOCH: "leader epochs",
    checkpoints.PARTITION_METADATA: "partition metadata",
    checkpoints.META_PROPERTIES: "properties",
    checkpoints.CLEAN_SHUTDOWN: "clean shutdown",
}
# On their way in or out when the process ended; a start finishes or removes them.
_PASSING: Final = re.compile(r"\.(deleted|cleaned|swap|tmp)$")
_PARTITION: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)$")


def kind_of(name: str) -> str | None:
    """What a file of this name holds; None for a name that no broker writes. A passing suffix is looked through."""
    name = _PASSING.sub("", name)
    return BY_NAME.get(name) or BY_SUFFIX.get(Path(name).suffix)


def partition_of(directory: Path) -> tuple[str, int] | None:
    """The topic and partition that a directory's name says; None for any other directory (or one being deleted)."""
    found = _PARTITION.match(directory.name)
    return (found["topic"], int(found["partition"])) if found else None


def base_offset(path: Path) -> int:
    """The offset in the name of a segment's file; ValueError without twenty digits."""
    stem = path.name.split(".")[0].split("-")[0]
    if len(stem) != 20 or not stem.isdigit():
        raise ValueError(f"{path.name} does not begin with an offset in twenty digits")
    return int(stem)


def content(path: Path) -> Bytes:
    """The file's bytes without reading them all at once; OSError as the kernel gives it."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        return memoryview(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)) if size else b""


def log_directories(path: Path) -> Iterator[Path]:
    """The log directories that a path stands for: itself, or the brokers' directories of a Tailrace data directory."""
    brokers = sorted(filter(_is_log_directory, path.glob("broker-*")))
    if brokers and not _is_log_directory(path):
        yield from brokers
    else:
        yield path


def moved_to(path: Path) -> str | None:
    """Where a log directory's partitions went that was given up (cli.files.moved); None for any other."""
    mark = path / checkpoints.MOVED_TO
    if (path / checkpoints.META_PROPERTIES).exists() or not mark.exists():
        return None
    _, *lines = mark.read_text(errors="replace").splitlines() or [""]
    return lines[0] if lines else "another place"


def _is_log_directory(path: Path) -> bool:
    """Whether it is one, or was before its files moved elsewhere."""
    return (path / checkpoints.META_PROPERTIES).exists() or (path / checkpoints.MOVED_TO).exists()


def holds_logs(path: Path) -> bool:
    """Whether a path is a partition's, a log or a data directory, or what is left of a log directory."""
    if partition_of(path) and any(path.glob(f"*{LOG_SUFFIX}")):
        return True
    if any(_is_log_directory(folder) for folder in (path, *path.glob("broker-*"))):
        return True
    if any((path / name).exists() for name in (*OFFSET_CHECKPOINTS, checkpoints.CLEAN_SHUTDOWN)):
        return True
    return any((folder / checkpoints.PARTITION_METADATA).exists() for folder in partitions(path))


def partitions(log_directory: Path) -> list[Path]:
    """The partitions' directories in a log directory, by name."""
    return sorted(folder for folder in log_directory.iterdir() if folder.is_dir() and partition_of(folder))

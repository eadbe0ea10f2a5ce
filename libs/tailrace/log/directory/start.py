"""What a log directory's last life left that the next one begins with: whose it is, how it ended, what to reread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tailrace.kafka.ids import parse_uuid
from tailrace.log.directory.reread import reread_tail
from tailrace.log.filesystem.checkpoints import (
    CLEAN_SHUTDOWN,
    DISK_FAILED,
    META_PROPERTIES,
    META_PROPERTIES_VERSION,
    MOVED_TO,
    CleanShutdown,
    format_meta_properties,
    parse_clean_shutdown,
    parse_properties,
)
from tailrace.log.filesystem.port import Filesystem, join, read_if_present, write_file_atomically

_BLANK: Final = b"\0\r\n\t "  # what a power cut may leave of a file


@dataclass(slots=True)
class LastShutdown:
    """How the process ended that had the directory before, as far as it left word of that."""

    clean: bool = False  # every log is as the checkpoints say
    broker_epoch: int = -1  # see checkpoints.CleanShutdown
    metadata_offset: int = -1
    any_compacted: bool = False  # nobody knows which logs were: a gap between segments may be compaction's
    failure: str = ""  # why the disk failed under it
    reread_bytes: int = 0  # what was therefore dropped from the page cache


class LogDirRefused(Exception):
    """The directory cannot be used; the message is a sentence for the operator."""


def own_directory(filesystem: Filesystem, path: str, node_id: int, cluster_id: str, new_id: Callable[[], UUID]) -> UUID:
    """The directory's id by its meta.properties, which is made where there is none; LogDirRefused if it is another's.

    A directory that is new, was emptied by a power cut, or is a Kafka's from before KIP-858 gets its id here.
    """
    content = read_if_present(filesystem, join(path, META_PROPERTIES))
    if content is None and (moved := read_if_present(filesystem, join(path, MOVED_TO))) is not None:
        lines = moved.decode(errors="replace").splitlines()
        target = lines[1] if len(lines) > 1 else "another one"
        raise LogDirRefused(f"the log directory {path} was moved: {target} has it now")
    try:
        properties = parse_properties(content or b"")
        if not properties.keys() & {"cluster.id", "node.id", "directory.id"} and (content or b"").strip(_BLANK):
            raise ValueError("it does not say whose the directory is")
        directory_id = parse_uuid(properties["directory.id"]) if "directory.id" in properties else UUID(int=0)
    except ValueError as damaged:
        raise LogDirRefused(f"{join(path, META_PROPERTIES)} is damaged: {damaged}") from damaged
    version = properties.get("version", META_PROPERTIES_VERSION)
    if version not in ("0", META_PROPERTIES_VERSION):  # it stands for every file of the directory
        raise LogDirRefused(
            f"the log directory {path} has format version {version}, and this version of Tailrace knows "
            f"{META_PROPERTIES_VERSION}: a newer one wrote it. Nothing was changed; install that version"
        )
    for key, ours in (("cluster.id", cluster_id), ("node.id", str(node_id))):
        if properties.get(key, ours) != ours:
            found = properties[key]
            raise LogDirRefused(f"the log directory {path} belongs to {key} {found}, not to {ours}")
    if not directory_id.int:
        directory_id = new_id()
        content = format_meta_properties(cluster_id, node_id, directory_id)
        write_file_atomically(filesystem, path, META_PROPERTIES, content)
    return directory_id


def take_clean_shutdown(filesystem: Filesystem, path: str) -> CleanShutdown | None:
    """What the marker of a clean shutdown says, None without one. It is gone afterwards, also after a crash.

    From here on a crash may leave anything, so the marker must be gone before the first append.
    """
    content = read_if_present(filesystem, join(path, CLEAN_SHUTDOWN))
    if content is None:
        return None
    marker = parse_clean_shutdown(content)
    filesystem.remove(join(path, CLEAN_SHUTDOWN))
    filesystem.sync_directory(path)
    return marker


def failure_before(filesystem: Filesystem, path: str) -> str:
    """Why the disk failed under the last process, where that left a mark; else ""."""
    mark = read_if_present(filesystem, join(path, DISK_FAILED))
    return "" if mark is None else mark.decode(errors="replace").strip() or "unknown"


def reread_after_failure(filesystem: Filesystem, path: str, tails: Iterable[tuple[str, int]]) -> int:
    """Makes sure that what recovery reads is on the disk, or will be (see reread.py); the size in bytes.

    tails are the logs' directories and recovery points. A process that is stopped on the way begins again: the mark
    goes last, and from then on the page cache says what the disk does.
    """
    reread_bytes = sum(reread_tail(filesystem, directory, recovery_point) for directory, recovery_point in tails)
    filesystem.remove(join(path, DISK_FAILED))
    return reread_bytes

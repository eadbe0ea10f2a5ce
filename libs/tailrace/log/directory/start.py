"""What a log directory's last life left that the next one begins with: whose it is, how it ended, and its offsets.

These are methods of LogDir, for LogDir.open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

from tailrace.kafka.ids import parse_uuid
from tailrace.log.directory.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET,
    DISK_FAILED,
    META_PROPERTIES,
    MOVED_TO,
    format_meta_properties,
    parse_clean_shutdown,
    parse_properties,
)
from tailrace.log.directory.reread import reread_tail
from tailrace.log.filesystem.port import join, write_file_atomically

if TYPE_CHECKING:
    from tailrace.log.directory.log_dir import LogDir


_BLANK: Final = b"\0\r\n\t "  # what a power cut may leave of a file


class LogDirRefused(Exception):
    """The directory cannot be used; the message is a sentence for the operator."""


def read_meta_properties(log_dir: LogDir, node_id: int, cluster_id: str) -> None:
    content = log_dir._read(META_PROPERTIES)
    if content is None and (moved := log_dir._read(MOVED_TO)) is not None:
        lines = moved.decode(errors="replace").splitlines()
        target = lines[1] if len(lines) > 1 else "another one"
        raise LogDirRefused(f"the log directory {log_dir.path} was moved: {target} has it now")
    try:
        properties = parse_properties(content or b"")
        if not properties.keys() & {"cluster.id", "node.id", "directory.id"} and (content or b"").strip(_BLANK):
            raise ValueError("it does not say whose the directory is")
        directory_id = parse_uuid(properties["directory.id"]) if "directory.id" in properties else UUID(int=0)
    except ValueError as damaged:
        raise LogDirRefused(f"{join(log_dir.path, META_PROPERTIES)} is damaged: {damaged}") from damaged
    for key, ours in (("cluster.id", cluster_id), ("node.id", str(node_id))):
        if properties.get(key, ours) != ours:
            found = properties[key]
            raise LogDirRefused(f"the log directory {log_dir.path} belongs to {key} {found}, not to {ours}")
    if not directory_id.int:  # new, emptied by a power cut, or a Kafka's from before KIP-858: it gets one here too
        directory_id = log_dir._new_id()
        content = format_meta_properties(cluster_id, node_id, directory_id)
        write_file_atomically(log_dir._filesystem, log_dir.path, META_PROPERTIES, content)
    log_dir.directory_id = directory_id


def read_clean_shutdown(log_dir: LogDir) -> None:
    content = log_dir._read(CLEAN_SHUTDOWN)
    if content is not None:
        log_dir.clean = True
        log_dir.clean_shutdown_epoch, log_dir.clean_shutdown_offset = parse_clean_shutdown(content)
        # From here on a crash may leave anything, so the marker must be gone before the first append.
        log_dir._filesystem.remove(join(log_dir.path, CLEAN_SHUTDOWN))
        log_dir._filesystem.sync_directory(log_dir.path)


def read_offsets(log_dir: LogDir) -> None:
    for name in log_dir.offsets.by_name():
        mended, believed = log_dir.offsets.read(name)
        if mended:
            log_dir.on_mended(name)
        if not believed:
            log_dir.clean = False  # no recovery point is believed: every log is checked from its beginning
            log_dir.any_compacted = log_dir.any_compacted or name == CLEANER_OFFSET


def reread_after_failure(log_dir: LogDir) -> None:
    """Makes sure that what recovery reads is on the disk, or will be: see reread.py."""
    mark = log_dir._read(DISK_FAILED)
    if mark is None:
        return
    log_dir.failed_before = mark.decode(errors="replace").strip() or "unknown"
    log_dir.clean, log_dir.clean_shutdown_epoch = False, -1
    for key in log_dir._unopened:
        recovery_point = log_dir.offsets.recovery_points.get(key, 0)
        log_dir.reread_bytes += reread_tail(log_dir._filesystem, log_dir._directory(key), recovery_point)
    for name in log_dir._futures.values():
        log_dir.reread_bytes += reread_tail(log_dir._filesystem, join(log_dir.path, name), 0)
    # Not before: who is stopped on the way begins anew. From here on the page cache says what the disk does.
    log_dir._filesystem.remove(join(log_dir.path, DISK_FAILED))

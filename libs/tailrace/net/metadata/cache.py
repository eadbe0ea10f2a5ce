"""A follower's last image on disk: what a service starts from while no controller answers."""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from tailrace.errors import ApiError
from tailrace.kafka.features import beyond
from tailrace.metadata.codec import MalformedRecord
from tailrace.metadata.image import MetadataImage
from tailrace.net.metadata.batches import Snapshot, decode_snapshot
from tailrace.private_files import private_folder, private_opener

_MAGIC = b"TRMI\x00\x01"
_HEAD = Struct(">6sIqii")  # magic, CRC-32C of what follows the crc, end offset, epoch, controller epoch
_CRC_END = 10


class Cached(NamedTuple):
    """The image and the highest controller epoch that its follower had seen."""

    image: MetadataImage
    controller_epoch: int


def write(path: Path, snapshot: Snapshot, controller_epoch: int) -> None:
    """Replaces the cache atomically: after a crash it is the old one or the new one."""
    tail = _HEAD.pack(_MAGIC, 0, snapshot.end_offset, snapshot.epoch, controller_epoch)[_CRC_END:] + snapshot.data
    private_folder(path.parent)
    temporary = path.with_name(path.name + ".new")
    with open(temporary, "wb", opener=private_opener) as file:
        file.write(_MAGIC + crc32c(tail).to_bytes(4, "big") + tail)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read(path: Path) -> Cached | None:
    """Returns what is cached; None if there is nothing that can be read (a cache may always be lost)."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) < _HEAD.size:
        return None
    magic, crc, end_offset, epoch, controller_epoch = _HEAD.unpack_from(data)
    if magic != _MAGIC or crc32c(data[_CRC_END:]) != crc:
        return None
    try:
        image = decode_snapshot(Snapshot(end_offset, epoch, data[_HEAD.size :]))
    except (ApiError, MalformedRecord):
        return None  # written by a version with other records
    return None if beyond(image.features) else Cached(image, controller_epoch)

"""Taking a partition's files over into another log directory: hard links where nothing will be written, else copies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from io import FileIO
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from tailrace.cli.files import staging
from tailrace.log.segment.index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from tailrace.log.segment.segment import LOG_SUFFIX, bases_of, file_name

_COPY_BYTES: Final = 16 * 1024 * 1024
_REBUILT: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
_LEFT: Final = (".deleted", ".cleaned", ".tmp")  # what the next start would remove; a .swap file is still needed


class How(StrEnum):
    """link: closed segments become hard links; copy: nothing is shared; move: as link, then the source loses them."""

    LINK = "link"
    COPY = "copy"
    MOVE = "move"


class Step(NamedTuple):
    """One file on its way."""

    source: Path
    target: Path
    size_bytes: int
    link: bool


def steps(source: Path, target: Path, how: How, stable_offset: int) -> Iterator[Step]:
    """The steps for a partition; segments that end at or below stable_offset are never written again.

    Above it recovery, replication or an append may write. Indexes are small, and rebuilt in place if they are damaged,
    so they are copied. A negative stable_offset says that the source crashed: Kafka had then made the newest segment's
    indexes 10 MiB long, and recovery rebuilds them anyway.
    """
    bases = bases_of(path.name for path in source.iterdir())
    logs = {file_name(base, LOG_SUFFIX): end for base, end in pairwise(bases)}
    crashed = {file_name(bases[-1], suffix) for suffix in _REBUILT} if bases and stable_offset < 0 else set()
    for path in sorted(source.iterdir()):
        if not path.is_file() or path.name.endswith(_LEFT) or path.name in crashed:
            continue
        closed = logs.get(path.name, stable_offset + 1) <= stable_offset
        yield Step(path, target / path.name, path.stat().st_size, closed and how is not How.COPY)


def take(step: Step, on_bytes: Callable[[int], None]) -> bool:
    """Links or copies one file; a link that the file systems do not allow becomes a copy. Whether it was linked."""
    if step.link:
        with suppress(OSError):
            os.link(step.source, step.target)
            on_bytes(step.size_bytes)
            return True
    with step.source.open("rb") as source, step.target.open("xb", buffering=0) as target:
        while piece := _read(source, step.source):
            with staging.named(step.target):
                _write(target, piece)
            on_bytes(len(piece))
        with staging.named(step.target):
            os.fsync(target.fileno())
    return False


def _read(source: BinaryIO, path: Path) -> bytes:
    with staging.named(path):
        return source.read(_COPY_BYTES)


def _write(target: FileIO, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[target.write(view) :]

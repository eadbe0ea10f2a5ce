"""Taking a partition's files over into another log directory: hard links where nothing will be written, else copies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from tailrace.log import files
from tailrace.log.index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from tailrace.log.segment import LOG_SUFFIX

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
    bases = sorted(files.base_offset(path) for path in source.glob(f"*{LOG_SUFFIX}"))
    ends = dict(pairwise(bases))
    for path in sorted(source.iterdir()):
        crashed = stable_offset < 0 and path.suffix in _REBUILT and files.base_offset(path) == bases[-1]
        if not path.is_file() or path.name.endswith(_LEFT) or crashed:
            continue
        closed = path.suffix == LOG_SUFFIX and ends.get(files.base_offset(path), stable_offset + 1) <= stable_offset
        yield Step(path, target / path.name, path.stat().st_size, closed and how is not How.COPY)


def take(step: Step, on_bytes: Callable[[int], None]) -> None:
    """Links or copies one file; a link that the file systems do not allow becomes a copy. The source stays as it is."""
    if step.link:
        with suppress(OSError):
            os.link(step.source, step.target)
            on_bytes(step.size_bytes)
            return
    with step.source.open("rb") as source, step.target.open("xb") as target:
        while piece := source.read(_COPY_BYTES):
            target.write(piece)
            on_bytes(len(piece))
        target.flush()
        os.fsync(target.fileno())

"""`--how move`: the sources are given up when all is in its new place, whoever is killed on the way.

A mark in each source, written before the target appears, names it and shares an id with it. The target appears by one
rename: from then on the move is decided, and whoever repeats the command goes on with giving the sources up. Of each
source meta.properties goes first, so that neither Kafka nor Tailrace starts on one that is half empty. Whoever has made
a new log directory of a source since keeps it: the mark knows which meta.properties it was written beside.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from tailrace.cli.data_dir import UpRefused
from tailrace.cli.files import staging
from tailrace.log.filesystem.checkpoints import META_PROPERTIES, MOVED_TO

_ID_FILE = ".moved-here"


class Mark(NamedTuple):
    """Where a directory's partitions went."""

    move_id: str
    target: Path
    properties: bytes
    partitions: tuple[str, ...]

    def concerns(self, source: Path) -> bool:
        """Whether the source is what was moved, or what is left of it. OSError."""
        try:
            return (source / META_PROPERTIES).read_bytes() == self.properties
        except FileNotFoundError:
            return True

    def decided(self) -> bool:
        """Whether the target is there and was made by this very move."""
        with suppress(OSError):
            return (self.target / _ID_FILE).read_text() == self.move_id
        return False


def read(source: Path) -> Mark | None:
    """The mark of a source; OSError."""
    try:
        move_id, target, properties, *partitions = (source / MOVED_TO).read_text().splitlines()
        return Mark(move_id, Path(target), bytes.fromhex(properties), tuple(partitions))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


@contextmanager
def marked(sources: Mapping[Path, Sequence[str]], working: Path, target: Path) -> Iterator[None]:
    """Writes the marks; takes them back where the target does not appear after all."""
    move_id = uuid4().hex
    staging.write(working, _ID_FILE, move_id.encode())
    try:
        for source, partitions in sources.items():
            properties = (source / META_PROPERTIES).read_bytes().hex()
            lines = (move_id, target, properties, *partitions)
            staging.write(source, MOVED_TO, "".join(f"{line}\n" for line in lines).encode())
        yield
    except BaseException:
        for source in sources:
            with suppress(OSError):
                (source / MOVED_TO).unlink()
        raise


def is_decided(sources: Sequence[Path], target: Path) -> bool:
    """Whether these directories were moved to target, and only remain to be given up. OSError."""
    marks = [(source, read(source)) for source in sources]
    return all(mark and mark.target == target and mark.concerns(source) and mark.decided() for source, mark in marks)


def give_up(sources: Sequence[Path], target: Path) -> None:
    """Removes what was moved from the marked sources, as far as it is still there. UpRefused."""
    try:
        staging.sync(target.parent)
        for source in sources:
            (source / META_PROPERTIES).unlink(missing_ok=True)
            staging.sync(source)
        for source in sources:
            mark = read(source)
            for name in mark.partitions if mark else ():
                with suppress(FileNotFoundError):
                    shutil.rmtree(source / name)
    except OSError as error:
        raise UpRefused(
            f"All of it is in {target}, but not gone from where it was: {error.filename}: {error.strerror}. "
            "Run the same command again to remove the rest."
        ) from None

"""A directory that appears when it is whole: filled under another name beside its place, synced, and renamed."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tailrace.cli.data_dir import UpRefused
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.private_files import FOLDER_MODE


def refuse_existing(target: Path) -> None:
    """UpRefused where the place is taken."""
    if target.exists():
        raise UpRefused(
            f"{target} exists already: use it if this command made it, for then it is whole, or name a directory that "
            "does not exist."
        )


def refuse_inside(target: Path, sources: Iterable[Path]) -> None:
    """UpRefused where the place lies in a source: that would not be as it was, and a broker takes no strange folder."""
    for source in sources:
        if target.resolve().is_relative_to(source.resolve()):
            raise UpRefused(f"{target} lies in {source}, which is to stay as it is: name a place outside of it.")


@contextmanager
def staged(target: Path, doing: str) -> Iterator[Path]:
    """The directory to fill; it becomes target at the end, or nothing is left of it. UpRefused, OSError."""
    working = target.with_name(f".{target.name}.{doing}")
    working.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    with _held(working, target):
        try:
            for left in working.iterdir():  # by one that was killed
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            yield working
            sync_below(working)
            working.rename(target)
        finally:
            shutil.rmtree(working, ignore_errors=True)
    try:
        sync(target.parent)
    except OSError as error:
        raise UpRefused(
            f"{target} is whole, but may be gone after a power failure: {target.parent}: {error.strerror}. "
            "Remove it and run the same command again when that is mended."
        ) from None


@contextmanager
def _held(working: Path, target: Path) -> Iterator[None]:
    """Lets nobody else fill it meanwhile; a process that was killed holds nothing."""
    folder = os.open(working, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        refuse_existing(target)  # whoever held it may have renamed or removed it just now
        if not os.path.samestat(os.fstat(folder), working.stat()):
            raise BlockingIOError
        yield
    except BlockingIOError:
        raise UpRefused(f"The same is going on already, in {working}: let it end.") from None
    finally:
        os.close(folder)


def write(folder: Path, name: str, content: bytes) -> None:
    """Writes a small file, old or new whatever happens, and returns when it is on the disk."""
    path = folder / f"{name}.tmp"
    with named(path), path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    path.rename(folder / name)
    sync(folder)


def sync(folder: Path) -> None:
    """Returns when the directory's entries are on the disk."""
    with named(folder):
        RealFilesystem().sync_directory(str(folder))


def sync_below(folder: Path) -> None:
    """Syncs all directories; whoever wrote a file has synced it."""
    for path, _, _ in os.walk(folder, topdown=False):
        sync(Path(path))


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Gives an OSError of a descriptor its file's name."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise

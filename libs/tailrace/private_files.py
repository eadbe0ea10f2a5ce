"""Folders and files that only their owner may open, whatever the umask of the process is."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_UMASK = 0o077
_OTHERS = 0o077


def make_umask_private() -> None:
    """What a library of others creates for this process, as SQLite does, is private, too; children inherit it."""
    os.umask(_UMASK)


def private_opener(path: str, flags: int) -> int:
    """For `open(..., opener=private_opener)`."""
    return os.open(path, flags, FILE_MODE)


def write_private(path: Path, data: bytes) -> None:
    """Replaces a private file, so that a reader and a power failure find the old content or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "wb", opener=private_opener) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def private_folder(path: Path) -> None:
    """Makes the folder if it is not there; takes it from others if it is ours.

    A folder that is shared by purpose (/tmp, with its sticky bit) and the root stay as they are.
    """
    path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    status = path.stat()
    shared = status.st_uid != os.geteuid() or status.st_mode & stat.S_ISVTX or path.samefile(path.anchor or "/")
    if status.st_mode & _OTHERS and not shared:
        with suppress(OSError):  # a file system without modes, or one that takes no writes: its user will hear of that
            path.chmod(FOLDER_MODE)


def private_data_dir(path: Path) -> None:
    """As private_folder, but a folder that holds something stays as it is: it may be one for all, named by mistake.

    Who may read it learns names alone: each file and folder in a data directory is private by itself. Who may write
    to it could put other files in their place: raises PermissionError if all users may and the folder is ours. One
    that was given to us, as to a container, is its owner's business; in one with a sticky bit nobody can do so.
    """
    if not path.exists() or not any(path.iterdir()):
        private_folder(path)
    status = path.stat()
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX and status.st_uid == os.geteuid():
        raise PermissionError(errno.EACCES, "every user of this machine may write to it (chmod o-w)", str(path))


def take_from_others(path: Path) -> None:
    """Makes a file private that an earlier version left readable; nothing if it is not there, or not ours.

    By its name: SQLite's locks would end with the first descriptor of the file that is closed.
    """
    try:
        status = path.stat()
    except OSError:
        return
    if status.st_mode & _OTHERS and status.st_uid == os.geteuid():
        path.chmod(FILE_MODE)

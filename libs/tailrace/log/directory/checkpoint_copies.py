"""A copy beside each of a log directory's offset checkpoints, by which a flipped bit in one is known and put right.

Kafka's text has no check: a `0` that became a `4` is believed, and a log start that moved up so deletes records. The
copy says the same with a CRC, under a name that Kafka passes over. It goes before the checkpoint changes and comes
after, and changes of names reach the disk in their order, so no crash leaves one that says something older.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tailrace.log.filesystem.checkpoints import one_bit_apart
from tailrace.log.filesystem.port import Filesystem, join, read_if_present, write_file_atomically
from tailrace.records.batch import checksum

COPY_SUFFIX: Final = ".twin"
_SUM_BYTES: Final = len("0123abcd\n")


def encode_copy(content: bytes) -> bytes:
    """A copy's bytes: the content and, on a line of its own, its CRC-32C."""
    return content + b"%08x\n" % checksum(content)


def decode_copy(copy: bytes) -> bytes | None:
    """The content that a copy vouches for; None of one that is damaged or was not wholly written."""
    content = copy[:-_SUM_BYTES]
    return content if copy == encode_copy(content) else None


def true_content(content: bytes, copy: bytes | None, parse: Callable[[bytes], object]) -> bytes:
    """What the file should hold: the copy's content if a bit of the file flipped, or nothing of it can be read.

    What differs otherwise was written by someone who writes no copies: Apache Kafka, which had the directory since.
    """
    vouched = None if copy is None else decode_copy(copy)
    if vouched is None or vouched == content:
        return content
    if not content or one_bit_apart(vouched, content):
        return vouched
    try:
        parse(content)
    except ValueError:
        return vouched
    return content


def read_checkpoint(
    filesystem: Filesystem, directory: str, name: str, parse: Callable[[bytes], object]
) -> tuple[bytes | None, bool]:
    """(the content, None without a file; whether it was damaged and is mended now)."""
    content = read_if_present(filesystem, join(directory, name))
    if content is None:
        return None, False
    found = true_content(content, read_if_present(filesystem, join(directory, name + COPY_SUFFIX)), parse)
    if found != content:
        write_checkpoint(filesystem, directory, name, found)
    return found, found != content


def write_checkpoint(filesystem: Filesystem, directory: str, name: str, content: bytes) -> None:
    """Replaces a checkpoint and its copy; the copy need not reach the disk."""
    copy = join(directory, name + COPY_SUFFIX)
    with suppress(FileNotFoundError):
        filesystem.remove(copy)
    write_file_atomically(filesystem, directory, name, content)
    file = filesystem.open(copy, create=True)
    file.pwritev([encode_copy(content)], 0)

"""Memory as it is where a broker has been at work for a while: full, most of it of the page cache."""

from __future__ import annotations

import tempfile
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench import machine
from bench.report import say

_FREE_BYTES, _FREE_SHARE = 512 << 20, 64  # so much is left, or that part of all: the kernel keeps some free by itself
_PIECE_BYTES: Final = 16 << 20


class FullMemory:
    """Fills free memory with pages of a file that is one hole, the first that the kernel gives up.

    Memory that has been free for some seconds a virtual machine may have given back to its host (free page reporting).
    Who touches it first waits until the host has found a page for it. A broker that has read and written more than its
    memory holds meets hardly any such page; measurements do, because they delete and drop what they wrote.
    """

    def __init__(self, folder: Path) -> None:
        # Twice the memory: where it reads on, the page cache has lost what it once read there.
        self._hole = folder / "hole"
        self._most_bytes = machine.memory_bytes("MemTotal")
        self._free_bytes = max(_FREE_BYTES, self._most_bytes // _FREE_SHARE)
        self._at = 0
        with self._hole.open("wb") as file:
            file.truncate(2 * self._most_bytes)

    def fill(self) -> None:
        """Reads on in the hole until hardly any memory is free, or as much was read as there is."""
        piece = bytearray(_PIECE_BYTES)
        with self._hole.open("rb", buffering=0) as file:
            for _ in range(self._most_bytes // _PIECE_BYTES):
                if machine.memory_bytes("MemFree") < self._free_bytes:
                    return
                file.seek(self._at)
                file.readinto(piece)
                self._at = (self._at + _PIECE_BYTES) % (2 * self._most_bytes)


def add_option(parser: ArgumentParser) -> None:
    """--free-memory, to measure with memory as it is."""
    parser.add_argument("--free-memory", action="store_true", help="do not fill free memory first (bench/memory.py)")


def memory(stack: ExitStack, *, free: bool) -> Callable[[], None]:
    """Fills it, and returns what fills it again; neither does anything if it is to stay free.

    The first filling takes a minute or two where the host gives the memory again.
    The hole is removed with the stack. It lies on a disk: the holes of a tmpfs cost no memory.
    """
    if free:
        return lambda: None
    say("filling free memory")
    full = FullMemory(machine.fresh_folder(stack, Path(tempfile.gettempdir())))
    full.fill()
    return full.fill

"""Loaded by every Python whose PYTHONPATH begins with this folder: tells how long each process holds its event loop.

A timer rings every millisecond. Processor time that the process used between two of its calls is what a timer, a
heartbeat or another client waited for, whatever else this machine does meanwhile: of all its threads, since a thread
that keeps the interpreter holds the loop as well.
"""

import asyncio
import mmap
import os
import struct
import time
from pathlib import Path

_EVERY_SECONDS = 0.001
_WORST = struct.Struct("d")


def _watch(loop: asyncio.AbstractEventLoop, folder: str) -> None:
    path = Path(folder) / str(os.getpid())
    path.write_bytes(bytes(_WORST.size))
    with path.open("r+b") as opened:
        worst = mmap.mmap(opened.fileno(), _WORST.size)
    used = time.process_time()

    def ring() -> None:
        nonlocal used
        now = time.process_time()
        if now - used > _WORST.unpack_from(worst)[0]:
            _WORST.pack_into(worst, 0, now - used)
        used = now
        loop.call_later(_EVERY_SECONDS, ring)

    loop.call_soon(ring)


def _begin(folder: str) -> None:
    get_loop = asyncio.Runner.get_loop

    def watched(self: asyncio.Runner) -> asyncio.AbstractEventLoop:
        loop = get_loop(self)
        _watch(loop, folder)
        return loop

    asyncio.Runner.get_loop = watched  # type: ignore[method-assign]


if "BENCH_HOLDS" in os.environ:
    _begin(os.environ["BENCH_HOLDS"])

"""Loaded by every Python whose PYTHONPATH begins with this folder: tells how long each process holds its event loop.

A timer rings every millisecond. Processor time that the process used between two of its calls is what a timer, a
heartbeat or another client waited for, whatever else this machine does meanwhile: of all its threads, since a thread
that keeps the interpreter holds the loop as well. It is no hold, though, while the loop's thread could run and the
machine ran others (schedstat): that time of the wall's is taken off.
"""

import asyncio
import mmap
import os
import struct
import threading
import time
from pathlib import Path

_EVERY_SECONDS = 0.001
_WORST = struct.Struct("d")


def _awake(schedule: int) -> float:
    """Seconds of the wall without those in which this thread waited for a processor."""
    return time.perf_counter() - int(os.pread(schedule, 100, 0).split()[1]) / 1e9


def _watch(loop: asyncio.AbstractEventLoop, folder: str) -> None:
    path = Path(folder) / str(os.getpid())
    path.write_bytes(bytes(_WORST.size))
    with path.open("r+b") as opened:
        worst = mmap.mmap(opened.fileno(), _WORST.size)
    schedule = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
    used, awake = time.process_time(), _awake(schedule)

    def ring() -> None:
        nonlocal used, awake
        now, now_awake = time.process_time(), _awake(schedule)
        held = min(now - used, now_awake - awake)
        if held > _WORST.unpack_from(worst)[0]:
            _WORST.pack_into(worst, 0, held)
        used, awake = now, now_awake
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

"""How much of the machine others used during a measurement: what neither the servers nor the client spent."""

import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT, _GUEST = 3, 4, 8  # fields of /proc/stat that are not work, or counted twice


def busy_seconds(stat: str) -> float:
    """CPU seconds that all processors worked or were taken away by the host, from the text of /proc/stat."""
    fields = [int(field) for field in stat.partition("\n")[0].split()[1:]]
    return sum(field for at, field in enumerate(fields[:_GUEST]) if at not in (_IDLE, _IOWAIT)) / TICKS


def process_seconds(pid: int) -> float:
    """CPU seconds of a process with all its threads (clock_getcpuclockid(3)); 0 if it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


class Watch:
    """Begins when made; foreign_share() says how it was since."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._began = time.monotonic()
        self._busy, self._ours = self._read()

    def _read(self) -> tuple[float, float]:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        ours = children.ru_utime + children.ru_stime + sum(map(process_seconds, self._pids))
        return busy_seconds(Path("/proc/stat").read_text(encoding="ascii")), ours

    def foreign_share(self) -> float:
        """The others' part of all processors' time, 0 to 1."""
        busy, ours = self._read()
        foreign = (busy - self._busy) - (ours - self._ours)
        capacity = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        return min(1.0, max(0.0, foreign / capacity))

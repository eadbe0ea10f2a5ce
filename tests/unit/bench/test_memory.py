"""Free memory is filled until hardly any is left, and never with more than there is."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from bench import machine
from bench.memory import FullMemory, memory

MIB = 1 << 20


class Meminfo:
    """A machine of 1 GiB whose free memory shrinks by what is read."""

    def __init__(self, free_mib: int, shrinks_mib: int) -> None:
        self.free_mib, self.shrinks_mib, self.asked = free_mib, shrinks_mib, 0

    def bytes(self, key: str) -> int:
        if key == "MemTotal":
            return 1024 * MIB
        self.asked += 1
        self.free_mib -= self.shrinks_mib
        return (self.free_mib + self.shrinks_mib) * MIB


@pytest.mark.parametrize(("free_mib", "shrinks_mib", "asked"), [(600, 16, 7), (100, 16, 1), (600, 0, 64)])
def test_it_stops_where_hardly_any_is_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free_mib: int, shrinks_mib: int, asked: int
) -> None:
    meminfo = Meminfo(free_mib, shrinks_mib)
    monkeypatch.setattr(machine, "memory_bytes", meminfo.bytes)
    FullMemory(tmp_path).fill()
    assert meminfo.asked == asked


@pytest.mark.parametrize(("free", "asked"), [(True, 0), (False, 8)])
def test_memory_may_stay_as_it_is(monkeypatch: pytest.MonkeyPatch, free: bool, asked: int) -> None:
    meminfo = Meminfo(600, 16)
    monkeypatch.setattr(machine, "memory_bytes", meminfo.bytes)
    with ExitStack() as stack:
        memory(stack, free=free)()
    assert meminfo.asked == asked

"""Whether a page is in the page cache, asked without bringing it there."""

import os
from pathlib import Path

import pytest

from tailrace.log.filesystem import real
from tailrace.log.filesystem.page_cache import resident
from tailrace.log.filesystem.real import RealFile

PAGE = os.sysconf("SC_PAGESIZE")


@pytest.fixture
def file(tmp_path: Path) -> RealFile:
    made = RealFile(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT)
    made.pwritev([b"x" * (2 * PAGE + 1)], 0)
    return made


def left_the_cache(file: RealFile) -> bool:
    """All of it; False on a file system that is nothing but a page cache."""
    file.sync()
    file.reread()
    return not resident(file.fileno(), 0)


def test_what_was_written_is_there_and_what_lies_behind_the_end_is_not(file: RealFile) -> None:
    places = (0, PAGE - 1, PAGE, 2 * PAGE, 3 * PAGE, 1 << 40)
    assert [file.resident(at) for at in places] == [True, True, True, True, False, False]


def test_asking_brings_nothing(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = left_the_cache(file)
    with monkeypatch.context() as nothing_is_read:
        for name in ("pread", "preadv", "sendfile"):
            nothing_is_read.delattr(os, name)
        assert [file.resident(at) for at in (0, PAGE, 2 * PAGE) * 2] == [not gone] * 6
    file.warm(2 * PAGE + 1, 0)
    assert [file.resident(at) for at in (0, PAGE, 2 * PAGE)] == [True] * 3


@pytest.mark.parametrize("cached", [True, False])
def test_where_the_kernel_does_not_tell_a_read_that_does_not_wait_does(
    file: RealFile, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    monkeypatch.setattr(real, "resident", lambda descriptor, position: None)
    monkeypatch.setattr(RealFile, "cached", lambda *_: cached)
    assert file.resident(0) is cached


def test_it_does_not_tell_of_what_is_no_file_and_keeps_no_mapping() -> None:
    with open(os.devnull, "rb") as null, open(__file__, "rb") as here:
        assert resident(null.fileno(), 0) is None
        assert here.read(1)  # it may have left the page cache since it was imported
        before = Path("/proc/self/maps").read_text().count(__file__)
        assert resident(here.fileno(), 0)
        assert Path("/proc/self/maps").read_text().count(__file__) == before
    assert resident(-1, 0) is None


def test_the_processor_has_looked_at_what_was_brought(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.pwritev([b"x" * 300_000], 0)
    looks: list[int] = []
    preadv = os.preadv

    def noted(descriptor: int, buffers: list[bytearray], offset: int) -> int:
        looks.append(offset)
        return preadv(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", noted)
    file.warm(299_000, 1000)
    assert looks == [1000, 1000 + 262_144]

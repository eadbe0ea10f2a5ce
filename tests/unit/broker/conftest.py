"""What several of the broker's tests begin with."""

import pytest

from tailrace.log.filesystem.memory import MemoryFile, MemoryFilesystem


@pytest.fixture
def file() -> MemoryFile:
    filesystem = MemoryFilesystem()
    filesystem.make_directory("/d")
    file = filesystem.open("/d/f", create=True)
    file.pwritev([b"x" * 200_000], 0)
    return file

"""A client that takes nothing makes the server pause, on every version of Python."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace.net.transport.writing import write_all


class Transport:
    """As asyncio's of 3.13.1: only write asks to pause."""

    def __init__(self) -> None:
        self.unsent: list[bytes] = []
        self.asked = 0

    def write(self, data: Any) -> None:
        self.unsent.append(bytes(data))
        self.asked += 1

    def writelines(self, buffers: Any) -> None:
        self.unsent.append(b"".join(buffers))


@pytest.mark.parametrize("never_pauses", [False, True])
def test_what_never_pauses_is_not_called(never_pauses: bool) -> None:
    transport = Transport()
    write_all(transport, [b"a", memoryview(b"bc"), bytearray(b"d")], never_pauses)
    assert (transport.unsent, transport.asked) == ([b"abcd"], int(never_pauses))

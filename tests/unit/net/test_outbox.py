"""What an outbox sends in which turn of the event loop."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from tailrace.log.filesystem import RealFile
from tailrace.log.reading import Slice
from tailrace.net.outbox import Outbox


@pytest.mark.parametrize("turn_bytes", [0, 1000])
async def test_what_is_sent_in_turns_begins_with_the_next_one(tmp_path: Path, turn_bytes: int) -> None:
    file = RealFile(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT)
    file.pwritev([b"x" * 3000], 0)
    piece = Slice(file, 0, 3000)
    piece.turn_bytes = turn_bytes
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    drained = asyncio.Event()
    outbox = Outbox(ours, drained.set, lambda error: pytest.fail(str(error)))
    assert outbox.send([b"head", piece]) is (turn_bytes == 0)
    if turn_bytes:
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        await drained.wait()
    assert not outbox.busy
    assert theirs.recv(10_000) == b"head" + b"x" * 3000
    outbox.close()
    ours.close()
    theirs.close()

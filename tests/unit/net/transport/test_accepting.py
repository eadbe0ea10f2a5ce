"""Accepting goes on when there is room again, and wakes nobody until then."""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path
from typing import Any

from support.waiting import turns_until
from tailrace.clock import ManualClock
from tailrace.net.transport.accepting import Accepting


class Listening(socket.socket):
    """Has no room for another descriptor while `full`."""

    full = True
    asked = 0

    def accept(self) -> tuple[socket.socket, Any]:
        self.asked += 1
        if self.full:
            raise OSError(errno.EMFILE, "too many open files")
        return super().accept()


async def test_without_descriptors_clients_wait_and_are_taken_later(tmp_path: Path) -> None:
    path = str(tmp_path / "a.sock")
    clock = ManualClock()
    came: list[socket.socket] = []
    failed: list[str] = []
    with Listening(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
        listening.bind(path)
        listening.listen()
        listening.setblocking(False)
        accepting = Accepting(listening, lambda sock, _: came.append(sock), clock, failed.append)
        client.connect(path)
        await turns_until(lambda: bool(failed))
        for _ in range(20):
            await asyncio.sleep(0)
        assert (failed, listening.asked, came) == (["Too many open files"], 1, [])
        listening.full = False
        clock.advance(200)
        await turns_until(lambda: len(came) == 1)
        assert not came[0].getblocking()
        accepting.close()
        came[0].close()


async def test_closed_while_it_rests_it_does_not_begin_again(tmp_path: Path) -> None:
    path = str(tmp_path / "a.sock")
    clock = ManualClock()
    failed: list[str] = []
    with Listening(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
        listening.bind(path)
        listening.listen()
        listening.setblocking(False)
        accepting = Accepting(listening, lambda sock, _: sock.close(), clock, failed.append)
        client.connect(path)
        await turns_until(lambda: bool(failed))
        accepting.close()
        clock.advance(200)
        for _ in range(5):
            await asyncio.sleep(0)
        assert (listening.asked, len(failed)) == (1, 1)

"""Answers that hold slices of files, past the transport: their records go from the page cache to the socket uncopied.

Its descriptor is a second one of the connection's socket, because uvloop lets nobody watch a transport's own. It is
used only while the transport itself has nothing to send, so what both write is in order.

A slice may be paced: it is sent in turns of some bytes, or by a carrier in place of the event loop. Nothing else is
sent meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Protocol, TypeAlias, cast

from tailrace.log.read import Records, Slice
from tailrace.wire.pieces import Bytes, Piece

# What one turn of the event loop sends to one client that takes everything at once.
_TURN_BYTES = 4_194_304

# Sends of a slice what the socket of this descriptor takes at once, and reports later how many bytes that were, None if
# that is unknown, and whether it failed then. False, and nothing is reported, where it cannot.
Carrier: TypeAlias = Callable[["PacedSlice", int, Callable[[int | None, bool], None]], bool]


class BorrowedBytes(Protocol):
    """Bytes of a file that stay where they are in memory, besides the page cache, as long as the loan is held."""

    def read(self, length: int, position: int) -> bytes:
        """A copy of some of them, by their place in the file."""
        ...

    def parts(self, length: int, position: int) -> list[tuple[int, int]]:
        """Where they lie in the memory that they are lent from: (place, length), one after the other."""
        ...

    def view(self, length: int, position: int) -> Bytes:
        """The first of these parts."""
        ...


class PacedSlice:
    """A slice that is sent in turns of turn_bytes, or by its carrier; from a loan of its bytes if there is one."""

    __slots__ = ("carrier", "loan", "slice", "turn_bytes")

    def __init__(
        self, piece: Slice, turn_bytes: int, carrier: Carrier | None, loan: BorrowedBytes | None = None
    ) -> None:
        self.slice = piece
        self.turn_bytes = turn_bytes
        self.carrier = carrier
        self.loan = loan

    def __len__(self) -> int:
        return self.slice.length

    def read(self) -> bytes:
        """As Slice.read."""
        piece = self.slice
        return piece.read() if self.loan is None else self.loan.read(piece.length, piece.position)


FILE_PIECES: Final = frozenset({Slice, Records, PacedSlice})


class Outbox:
    """What is on its way to one client: buffers and slices, oldest first."""

    def __init__(self, sock: socket.socket, drained: Callable[[], None], broke: Callable[[OSError], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = socket.socket(sock.family, sock.type, sock.proto, os.dup(sock.fileno()))
        self._fd = self._sock.fileno()
        self._pieces: deque[Piece] = deque()
        self._drained = drained
        self._broke = broke
        self._watching = False
        self._carried = False  # somebody else is sending the oldest piece
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether something has not left yet."""
        return bool(self._pieces)

    @property
    def unsent_bytes(self) -> int:
        """What has not left yet."""
        return sum(map(len, self._pieces))

    @property
    def memory_bytes(self) -> int:
        """What of it is in memory, not in files."""
        return sum(len(piece) for piece in self._pieces if type(piece) not in FILE_PIECES)

    def send(self, pieces: Iterable[Piece]) -> bool:
        """Takes more to send; whether everything has left at once. Otherwise drained is called when it has.

        What is sent in turns begins with the next one: this one has been spent on finding it.
        """
        self._pieces.extend(pieces)
        if any(type(piece) is PacedSlice and piece.carrier is None for piece in self._pieces):
            self._watch(True)
            return False
        return self._push()

    def _push(self) -> bool:
        pieces, left = self._pieces, _TURN_BYTES
        try:
            while pieces and left > 0 and not self._carry(pieces):
                left -= self._send_first(pieces)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            pieces.clear()
            self._watch(False)
            self._broke(error)
            return False
        self._watch(bool(pieces) and not self._carried)
        return not pieces

    def _carry(self, pieces: deque[Piece]) -> bool:
        """Whether somebody else sends the oldest piece now."""
        piece = pieces[0]
        if not self._carried and type(piece) is PacedSlice and piece.carrier is not None:
            self._carried = piece.carrier(piece, self._fd, self._on_carried)
            if not self._carried:
                piece.carrier = None
        return self._carried

    def _on_carried(self, sent: int | None, failed: bool) -> None:
        """The carrier took what the socket took. What failed is tried again here, for the sake of the error."""
        self._carried = False
        if self._closed:
            return
        if sent is None:
            self._pieces.clear()
            self._broke(ConnectionAbortedError("nobody knows how much of an answer was sent"))
            return
        piece = self._pieces[0]
        whole = sent == len(piece)
        self._pop(sent)
        if whole:
            if self._push():
                self._drained()
            return
        if failed and isinstance(rest := self._pieces[0], PacedSlice):
            rest.carrier = None
        self._watch(True)

    def _send_first(self, pieces: deque[Piece]) -> int:
        """Sends of the oldest piece what the socket takes; returns how much of this turn that was."""
        piece = pieces[0]
        if type(piece) is PacedSlice:
            sent, turn = self._send_file(piece.slice, piece.turn_bytes, piece.loan), _TURN_BYTES
        elif isinstance(piece, Slice):
            turn = sent = self._send_file(piece, _TURN_BYTES)
        else:
            turn = sent = self._sock.send(cast("Bytes", piece), socket.MSG_MORE if len(pieces) > 1 else 0)
        self._pop(sent)
        return turn

    def _send_file(self, piece: Slice, most: int, loan: BorrowedBytes | None = None) -> int:
        most = min(piece.length, most)
        if loan is not None:
            sent = self._sock.send(loan.view(most, piece.position))
        else:
            sent = os.sendfile(self._fd, piece.file.fileno(), piece.position, most)
        if not sent:
            raise OSError("the segment ends before the records that were announced")
        return sent

    def _pop(self, sent: int) -> None:
        """So many bytes of the oldest piece have left."""
        if sent == len(self._pieces[0]):
            self._pieces.popleft()
        else:
            self._pieces[0] = _rest(self._pieces[0], sent)

    def _writable(self) -> None:
        if self._push():
            self._drained()

    def _watch(self, wanted: bool) -> None:
        if wanted == self._watching:
            return
        self._watching = wanted
        if wanted:
            self._loop.add_writer(self._fd, self._writable)
        else:
            self._loop.remove_writer(self._fd)

    def close(self) -> None:
        """Forgets what has not left."""
        self._closed = True
        self._pieces.clear()
        self._watch(False)
        if self._carried:  # the carrier has a descriptor of its own, and the client is to see the end now
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


def _rest(piece: Piece, sent: int) -> Piece:
    """What is left of a piece."""
    if isinstance(piece, PacedSlice):
        return PacedSlice(_rest_of_slice(piece.slice, sent), piece.turn_bytes, piece.carrier, piece.loan)
    if isinstance(piece, Slice):
        return _rest_of_slice(piece, sent)
    assert isinstance(piece, Bytes)
    return memoryview(piece)[sent:]


def _rest_of_slice(piece: Slice, sent: int) -> Slice:
    return Slice(piece.file, piece.position + sent, piece.length - sent)

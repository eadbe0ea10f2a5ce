"""What an answer is made of: bytes in memory, and pieces of files that leave for the socket uncopied."""

from __future__ import annotations

from typing import Protocol, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview


class FilePiece(Protocol):
    """Bytes of a file: tailrace.log.read.Slice, and what paces one (net/transport/outbox.py)."""

    def __len__(self) -> int: ...

    def read(self) -> bytes:
        """A copy of them."""
        ...


Piece: TypeAlias = Bytes | FilePiece
Answer: TypeAlias = Bytes | list[Piece]  # a whole frame, or its pieces

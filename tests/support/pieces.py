"""Answers of the hot path, put together for a test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tailrace.wire.pieces import Bytes, Piece


def whole(answer: Iterable[Piece] | asyncio.Future[list[Piece]]) -> bytes:
    """The frame of an answer that is there."""
    assert not isinstance(answer, asyncio.Future)
    return b"".join(piece if isinstance(piece, Bytes) else piece.read() for piece in answer)

"""Whether a role's handlers take very many rows in one step: by bytecodes between two turns of the event loop.

What C does by itself, as the end of a list of half a million rows, is not seen here: bench/waits.py measures it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any, Final

import pytest

from support.largest import Largest, all_largest
from support.steps import longest_stretch
from tailrace.net import pieces
from tailrace.net.context import Context, Identity
from tailrace.net.pieces import ROWS_AT_ONCE
from tailrace.wire import codec
from tailrace.wire.header import parse_request_header
from tailrace.wire.library import struct_of

FEW: Final = ROWS_AT_ONCE + 100  # more than one piece
TIMES: Final = 2
_TRIES: Final = 3  # the role's own tasks run on the same loop, and may be in one stretch with a handler
# A piece has as many rows, or fewer where other things end it sooner.
MOST: Final = 1.25


@dataclass(frozen=True)
class Asked:
    """A request with many rows; `bare`: without the rows inside them."""

    largest: Largest
    bare: bool

    def __str__(self) -> str:
        return self.largest.name + (", without rows inside" if self.bare else "")

    def request(self, rows: int) -> tuple[Any, Context]:
        frame = memoryview(self.largest.with_rows(rows))[4:]
        header = parse_request_header(frame)
        request = codec.decode_request(header.api_key, header.api_version, frame[header.body_offset :])
        for row in getattr(request, self.largest.path) if self.bare else ():
            for name in _inner(self.largest):
                setattr(row, name, [])
        return request, Context(header.api_key, header.api_version, 1, "many", Connection())


class Connection:
    identity = Identity(client_host="10.1.1.1", listener="CLIENT", advertised_host="front", base_port=9092, node_id=0)

    def close(self) -> None: ...

    def give_way(self, why: str) -> None: ...


def asked_of(handlers: Container[int], but: Container[str] = ()) -> list[Asked]:
    """For each list of each API in the table; `but` has paths of lists of which many are one decision."""
    return [
        Asked(one, bare)
        for one in all_largest()
        if one.api.key in handlers and one.path not in but
        for bare in (False, True)
        if not bare or _inner(one)
    ]


async def grows(monkeypatch: pytest.MonkeyPatch, handlers: Mapping[int, Any], asked: Asked, role: Any) -> float:
    """How many times as long the longest step is with twice as many rows. Below MOST it does not grow."""
    # Pieces of ten rows are short beside a pass over all of them that does little with each.
    monkeypatch.setattr(pieces.in_pieces, "__defaults__", (10, None))
    monkeypatch.setattr(pieces, "thread_time_ms", count(0, 10).__next__)  # and end wherever their time is looked at

    async def longest(rows: int) -> int:
        request, context = asked.request(rows)
        return await longest_stretch(handlers[context.api_key](request, context, role))

    await longest(50)  # what is remembered from the first on is no part of it
    growth = inf
    for _ in range(_TRIES):
        few = await longest(FEW)
        growth = min(growth, await longest(TIMES * FEW) / few)
        if growth < MOST:
            break
    return growth


def _inner(largest: Largest) -> list[str]:
    if "." in largest.path:
        return []
    field = struct_of(largest.api.request).fields[largest.path]
    fields: Any = field.array_of.fields.items() if field.array_of.is_struct() else ()
    return [name for name, inner in fields if inner.is_array() and inner.for_version_q(largest.version)]

"""No handler of a broker takes very many rows in one step: every API that it answers, by the rows of its own schema."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.broker import CLIENT, running
from support.largest import Largest, all_largest
from tailrace.net.context import Context
from tailrace.net.pieces import ROWS_AT_ONCE
from tailrace.wire import codec
from tailrace.wire.header import parse_request_header
from tailrace_broker.app import HANDLERS

ROWS = 20 * ROWS_AT_ONCE
# The configs of one resource are one decision.
OF_ONE = {"resources.configs", "resources.configuration_keys"}


class Connection:
    identity = CLIENT

    def close(self) -> None: ...


async def turns_beside(work: Any) -> int:
    """How often others had their turn until it was done."""
    turns, loop = 0, asyncio.get_running_loop()

    def turn() -> None:
        nonlocal turns
        turns += 1
        if not done:
            loop.call_soon(turn)

    done = False
    loop.call_soon(turn)
    await work
    done = True
    return turns


ASKED = [one for one in all_largest() if one.api.key in HANDLERS and one.path not in OF_ONE]


@pytest.mark.parametrize("largest", ASKED, ids=lambda one: one.name)
async def test_others_have_their_turn(tmp_path: Path, largest: Largest) -> None:
    frame = memoryview(largest.with_rows(ROWS))[4:]
    header = parse_request_header(frame)
    request = codec.decode_request(header.api_key, header.api_version, frame[header.body_offset :])
    context = Context(header.api_key, header.api_version, 1, "many", Connection())
    async with running(tmp_path) as node:
        turns = await turns_beside(HANDLERS[header.api_key](request, context, node.broker))
    assert turns >= ROWS / ROWS_AT_ONCE / 3

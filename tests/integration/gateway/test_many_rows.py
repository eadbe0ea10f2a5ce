"""No handler of a gateway's own takes very many rows in one step."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from support.gateway import World
from support.many_rows import MOST, Asked, asked_of, grows
from tailrace.errors import ApiError
from tailrace.net.context import Context
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.handlers import HANDLERS


async def _refused_or_answered(request: Any, context: Context, gateway: Gateway) -> None:
    with suppress(ApiError):
        await HANDLERS[context.api_key](request, context, gateway)


ANSWERED = dict.fromkeys(HANDLERS, _refused_or_answered)


@pytest.mark.parametrize("asked", asked_of(ANSWERED), ids=str)
async def test_no_step_is_longer_because_there_are_more_rows(
    world: World, monkeypatch: pytest.MonkeyPatch, asked: Asked
) -> None:
    assert await grows(monkeypatch, ANSWERED, asked, world.gateway) < MOST

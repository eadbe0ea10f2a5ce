"""No handler of a controller takes very many rows in one step; what a thread decides is not counted."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.controllers import Node
from support.many_rows import MOST, Asked, asked_of, grows
from tailrace.errors import ApiError
from tailrace.net.context import Context
from tailrace.wire.apis import APIS
from tailrace_controller.handlers import HANDLERS
from tailrace_controller.role import ControllerRole


async def _refused_or_answered(request: Any, context: Context, role: ControllerRole) -> None:
    with suppress(ApiError):
        await HANDLERS[context.api_key](request, context, role)


ANSWERED = {key: _refused_or_answered for key in HANDLERS if key in APIS}


@pytest.mark.parametrize("asked", asked_of(ANSWERED), ids=str)
async def test_no_step_is_longer_because_there_are_more_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Asked
) -> None:
    async def at_once(role: ControllerRole) -> None: ...

    monkeypatch.setattr(ControllerRole, "until_placeable", at_once)  # no broker comes
    async with Node(tmp_path).controller() as role:
        assert await grows(monkeypatch, ANSWERED, asked, role) < MOST

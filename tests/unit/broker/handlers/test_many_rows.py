"""No handler of a broker takes very many rows in one step: every API that it answers, by the rows of its own schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.broker import running
from support.many_rows import MOST, Asked, asked_of, grows
from tailrace_broker.app import HANDLERS

# The configs of one resource are one decision.
OF_ONE = {"resources.configs", "resources.configuration_keys"}


@pytest.mark.parametrize("asked", asked_of(HANDLERS, but=OF_ONE), ids=str)
async def test_no_step_is_longer_because_there_are_more_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Asked
) -> None:
    async with running(tmp_path) as node:
        assert await grows(monkeypatch, HANDLERS, asked, node.broker) < MOST

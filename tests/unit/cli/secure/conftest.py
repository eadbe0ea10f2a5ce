"""A controller that takes credentials of users, at a Unix socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.net.context import Context
from tailrace.net.dispatch import Service
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.server import serve
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.messages import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse


class Controller:
    """Remembers what it was asked, and answers with `code`."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.code = ErrorCode.NONE

    async def alter(
        self, request: AlterUserScramCredentialsRequest, context: Context, role: object
    ) -> AlterUserScramCredentialsResponse:
        self.asked += request.upsertions
        row = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
        return AlterUserScramCredentialsResponse(
            results=[row(user=one.name, error_code=self.code, error_message=None) for one in request.upsertions]
        )


@pytest.fixture
def controller() -> Controller:
    return Controller()


@pytest.fixture
async def address(controller: Controller, tmp_path: Path) -> AsyncIterator[Address]:
    where = Address(str(tmp_path / "controller-0.sock"), -1)
    service = Service(
        controller,
        {ApiKey.ALTER_USER_SCRAM_CREDENTIALS: controller.alter},
        INTERNAL_APIS,
        structlog.get_logger(),
        memory=RoleMemory(),
    )
    server = await serve([where], service)
    yield where
    await server.close()

"""Which quota service the REST API asks, what it says where that one cannot tell, and the thread of readings."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage, ServiceImage
from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address
from tailrace.net.client import Disconnected, UnservedError
from tailrace.wire.messages import DescribeQuotaUsageRequest
from tailrace_gateway.rest import admin

OLDER = "quota-0 serves DESCRIBE_QUOTA_USAGE not at all, this version of Tailrace needs 0 to 0: upgrade the older side"


async def asked(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> tuple[Any, list[int]]:
    """What the services answer, in the order of their ids, and the ports of those that were asked."""
    ports: list[int] = []

    class Client:
        def __init__(self, address: Address, client_id: str, *, login: Any) -> None:
            self.port = address.port

        async def ask(self, message: Any, *, timeout_ms: float, version: int | None) -> Any:
            ports.append(self.port)
            answer = answers[self.port]
            if isinstance(answer, Exception):
                raise answer
            return answer

    monkeypatch.setattr(admin, "Client", Client)
    services = {
        ("quota", number): ServiceImage("quota", number, 1, UUID(int=number), (Endpoint("INTERNAL", "h", number),))
        for number in range(len(answers))
    }
    gateway: Any = SimpleNamespace(image=MetadataImage(services=services), boot_id="boot", secret=None)
    try:
        return await admin.GatewayAdmin(gateway, lambda: ("h", 0)).ask_quota(
            DescribeQuotaUsageRequest(max_entries=1)
        ), ports
    except ApiError as refused:
        return refused, ports


async def test_the_first_quota_service_that_answers_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await asked(monkeypatch, Disconnected("gone"), "use", "other use") == ("use", [0, 1])


async def test_a_quota_service_of_an_older_version_is_not_said_to_be_away(monkeypatch: pytest.MonkeyPatch) -> None:
    refused, ports = await asked(monkeypatch, UnservedError(OLDER), "nobody's use")
    assert refused.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert OLDER in refused.message
    assert ports == [0]


async def test_that_none_answers_is_said_where_none_does(monkeypatch: pytest.MonkeyPatch) -> None:
    refused, _ = await asked(monkeypatch, Disconnected("gone"), TimeoutError())
    assert (refused.code, refused.message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "No quota service answers.")


async def test_a_reading_holds_up_no_other_answer() -> None:
    gateway: Any = SimpleNamespace(image=MetadataImage(), boot_id="boot", secret=None)
    backend = admin.GatewayAdmin(gateway, lambda: ("h", 0))
    go_on = threading.Event()
    reading = asyncio.create_task(backend.run_reading(go_on.wait))
    assert await backend.run(lambda: "topics") == "topics"
    go_on.set()
    assert await reading
    await backend.close()

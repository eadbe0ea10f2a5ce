"""A login at a listener of a broker's, in whatever pieces its frames come."""

from __future__ import annotations

import socket
from collections.abc import Iterable

import pytest
import structlog
from structlog.testing import capture_logs

from support.sasl import ALL, authenticator, login, spoken, user
from tailrace.net.connection import Connection
from tailrace.net.context import Context
from tailrace.net.dispatch import Service
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.limits.seldom import LINES
from tailrace.net.sasl.opening import sasl_handlers
from tailrace.net.sasl.settings import SaslSettings
from tailrace.net.server import Server
from tailrace.runtime.clock import SystemClock
from tailrace.wire import codec
from tailrace.wire.apis import APIS, ApiKey
from tailrace.wire.messages import HeartbeatRequest, HeartbeatResponse

HEARTBEAT = bytes(codec.encode_request(HeartbeatRequest(group_id="g", member_id="m", generation_id=1), 0, 9, "c"))


async def talk(
    parts: Iterable[bytes], answers: int = 3, who: tuple[str, str] = ("alice", "right"), clients: int = 1
) -> tuple[list[bytes], list[str]]:
    """The answers to the last client, and the principals whose heartbeats were handled."""
    sasl = authenticator(SystemClock(), SaslSettings(ALL, failed_delay_ms=0), user(*who))
    principals: list[str] = []

    async def heartbeat(request: HeartbeatRequest, context: Context, role: object) -> HeartbeatResponse:
        principals.append(context.connection.session.identity.principal)
        return HeartbeatResponse(error_code=0)

    handlers = {ApiKey.HEARTBEAT: heartbeat, **sasl_handlers(sasl)}
    log = structlog.get_logger()
    server = Server(Service(None, handlers, APIS, log, memory=RoleMemory(), sasl=sasl, internal=False))
    got: list[bytes] = []
    for _ in range(clients):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        connection = Connection(server)
        await server.adopt(theirs, connection)
        sasl.begin(connection.session)
        got = await spoken(ours, parts, lambda found: len(found) >= answers)
    await server.close()
    sasl.close()
    return got, principals


@pytest.mark.parametrize("raw", [False, True])
async def test_a_login_may_come_in_any_two_pieces(raw: bool) -> None:
    data = login("alice", "right", raw=raw) + HEARTBEAT
    for at in range(0, len(data), 3):
        got, principals = await talk([data[:at], data[at:]])
        assert len(got) == 3 and principals == ["User:alice"]
        assert (got[1] == b"") == raw


async def test_a_token_without_a_header_may_be_smaller_than_any_request() -> None:
    got, _ = await talk([login("a", "b", raw=True)], answers=2, who=("a", "b"))
    assert len(got) == 2 and got[1] == b""


@pytest.mark.parametrize("raw", [False, True])
async def test_after_a_wrong_password_nothing_is_handled(raw: bool) -> None:
    got, principals = await talk([login("alice", "wrong", raw=raw) + HEARTBEAT])
    assert len(got) == (1 if raw else 2) and principals == []


async def test_before_a_login_nothing_is_handled() -> None:
    assert await talk([HEARTBEAT]) == ([], [])


@pytest.mark.parametrize("parts", [[HEARTBEAT], [login("alice", "wrong", raw=True)]])
async def test_clients_that_are_closed_before_their_login_are_some_lines(parts: list[bytes]) -> None:
    with capture_logs() as lines:
        assert (await talk(parts, clients=2 * LINES))[1] == []
    assert sum(line["event"] == "connection closed" for line in lines) == LINES


async def test_before_a_login_no_large_frame_is_read() -> None:
    assert await talk([b"\0\0\x40\x01" + b"\0\x24\0\2"]) == ([], [])

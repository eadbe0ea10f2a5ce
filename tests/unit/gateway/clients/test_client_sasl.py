"""A login at a gateway's port, in whatever pieces its frames come."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable
from uuid import UUID

import pytest
import structlog
from structlog.testing import capture_logs

from support.gateway import BOOT_ID, ScriptedFollower
from support.sasl import ALL, authenticator, login, spoken, user
from tailrace.metadata.image import BrokerImage, MetadataImage
from tailrace.net.identity import Identity
from tailrace.net.limits.seldom import LINES
from tailrace.net.quotas.meter import UNMETERED, Meter
from tailrace.net.sasl.settings import SaslSettings
from tailrace.runtime.clock import SystemClock
from tailrace.wire import codec
from tailrace.wire.messages import DescribeClusterRequest
from tailrace_gateway.answering import AnsweringGateway
from tailrace_gateway.clients.client import ClientLink
from tailrace_gateway.gateway import Advertised, GatewayLimits, Parts

DESCRIBE = bytes(codec.encode_request(DescribeClusterRequest(), 0, 9, "c"))


async def talk(
    parts: Iterable[bytes], answers: int = 3, who: tuple[str, str] = ("alice", "right"), clients: int = 1
) -> tuple[list[bytes], list[str]]:
    """The answers to the last client, and the users whose meters were looked for."""
    users: list[str] = []

    def meter_of(broker_id: int, client_id: bytes, user: str = "") -> Meter:
        users.append(user)
        return UNMETERED

    clock = SystemClock()
    image = MetadataImage(offset=0, epoch=1, cluster_id="c", brokers={0: BrokerImage(0, 1, UUID(int=1), fenced=False)})
    parts_of_it = Parts(
        follower=ScriptedFollower(image),
        clock=clock,
        sasl=authenticator(clock, SaslSettings(ALL, failed_delay_ms=0), user(*who)),
        random=random.Random(1),
        log=structlog.get_logger(),
        meter_of=meter_of,
        limits=GatewayLimits(),
        advertised=Advertised(),
        boot_id=BOOT_ID,
    )
    gateway = AnsweringGateway(parts_of_it)
    got: list[bytes] = []
    for _ in range(clients):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        link = ClientLink(theirs, gateway, Identity(listener="CLIENT", node_id=0))
        gateway.sasl.begin(link.session)
        gateway.connections.add(link)
        link.start()
        got = await spoken(ours, parts, lambda found: len(found) >= answers)
        link.close()
    gateway.sasl.close()
    return got, users


@pytest.mark.parametrize("raw", [False, True])
async def test_a_login_may_come_in_any_two_pieces(raw: bool) -> None:
    data = login("alice", "right", raw=raw) + DESCRIBE
    for at in range(0, len(data), 3):
        got, users = await talk([data[:at], data[at:]])
        assert len(got) == 3 and got[2][:4] == b"\0\0\0\x09" and users[-1] == "alice"
        assert (got[1] == b"") == raw


async def test_a_token_without_a_header_may_be_smaller_than_any_request() -> None:
    got, _ = await talk([login("a", "b", raw=True)], answers=2, who=("a", "b"))
    assert len(got) == 2 and got[1] == b""


@pytest.mark.parametrize("raw", [False, True])
async def test_after_a_wrong_password_nothing_is_answered(raw: bool) -> None:
    got, users = await talk([login("alice", "wrong", raw=raw) + DESCRIBE])
    assert len(got) == (1 if raw else 2) and "alice" not in users


async def test_before_a_login_nothing_is_answered() -> None:
    assert (await talk([DESCRIBE]))[0] == []


@pytest.mark.parametrize("parts", [[DESCRIBE], [login("alice", "wrong", raw=True)]])
async def test_clients_that_are_closed_before_their_login_are_some_lines(parts: list[bytes]) -> None:
    with capture_logs() as lines:
        assert "alice" not in (await talk(parts, clients=2 * LINES))[1]
    assert sum(line["event"] == "connection closed" for line in lines) == LINES


async def test_before_a_login_no_large_frame_is_read() -> None:
    assert (await talk([b"\0\0\x40\x01" + b"\0\x24\0\2" + b"\0" * 10]))[0] == []

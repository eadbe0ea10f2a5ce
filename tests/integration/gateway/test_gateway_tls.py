"""TLS at a gateway's ports: the relay's rules and bounds hold as without it, and no such socket is handed over."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration.gateway.test_gateway_limits import Meter, answered, produce
from integration.gateway.test_handover import paired, produce_request
from support.certificates import Authority, Pair
from support.gateway import Client, World
from support.tls_client import TlsClient, client_tls
from support.waiting import turns_until
from tailrace.net.quotas.throttled_connections import ThrottledConnections
from tailrace.net.tls.handshakes import Handshakes
from tailrace.net.tls.reload import ServerContexts
from tailrace.net.tls.settings import TlsSettings
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace_gateway.gateway import GatewayLimits


@pytest.fixture
def encrypt(authority: Authority, server: Pair) -> Callable[[World], World]:
    """Makes a world's ports TLS."""
    settings = TlsSettings(
        keystore_location=str(server.both),
        truststore_location=str(authority.certificate),
        client_auth="requested",
    )

    def make(world: World) -> World:
        gateway = world.gateway
        contexts = ServerContexts(settings, gateway.clock, gateway.log)
        world.listener.handshakes = Handshakes(contexts, gateway.clock, gateway.log)
        gateway.handshakes.append(world.listener.handshakes)
        return world

    return make


async def client(world: World, authority: Authority, who: Pair | None = None) -> Client:
    at = world.listener.base_port
    made = Client(*await asyncio.open_connection("127.0.0.1", at, ssl=client_tls(authority.certificate, who)))
    world.clients.append(made)
    return made


async def test_a_first_request_that_comes_with_the_handshake_is_answered(
    world: World, encrypt: Callable[[World], World], authority: Authority
) -> None:
    """In one packet with the client's last message: the socket tells of both once."""

    def ask_at_once(port: int) -> bytes:
        with TlsClient(socket.create_connection(("127.0.0.1", port)), client_tls(authority.certificate)) as at_once:
            at_once.handshake(flush=False)
            at_once.send(codec.encode_request(m.ApiVersionsRequest(), 0, 7, "c"))
            return at_once.read()

    answer = await asyncio.to_thread(ask_at_once, encrypt(world).listener.base_port)
    assert answer[4:8] == b"\x00\x00\x00\x07"


async def test_the_meter_is_that_of_the_certificates_user_and_the_client_is_muted(
    open_world: Callable[..., World], encrypt: Callable[[World], World], authority: Authority, alice: Pair
) -> None:
    asked: list[tuple[int, bytes, str]] = []
    meter = Meter(throttle_ms=2_000)  # longer than a busy machine takes to look at the connection

    def meter_of(broker_id: int, client_id: bytes, user: str) -> Meter:
        asked.append((broker_id, client_id, user))
        return meter

    world = encrypt(open_world(meter_of=meter_of))
    peer = await world.peer("broker-0")
    peer.script = answered
    world.put_broker(0, peer)
    limited = await client(world, authority, alice)
    limited.send(produce(1))
    await limited.answer()
    assert asked[-1] == (0, b"test", "CN=alice,OU=eng,O=Example")
    (connection,) = world.gateway.connections
    assert connection.session.identity.principal == "User:CN=alice,OU=eng,O=Example"
    assert connection.busy and not connection.slots, "it is muted for the time that it was told (KIP-219)"
    limited.send(produce(2))
    await limited.answer()
    assert meter.charges == 2
    anonymous = await client(world, authority)
    await anonymous.ask(m.MetadataRequest(topics=[]), 9)
    assert asked[-1] == (0, b"test", "ANONYMOUS")


async def test_a_client_over_tls_is_relayed_and_never_handed_over(
    tmp_path: Path, encrypt: Callable[[World], World], authority: Authority
) -> None:
    async with paired(tmp_path) as pair:
        plain = await pair.handed()
        assert (await plain.ask(produce_request(b"a"), 12)).responses
        encrypted = await client(encrypt(pair.world), authority)
        answer = await encrypted.ask(produce_request(b"b"), 12)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert pair.adopted.count == 1


async def test_max_connections_counts_handshakes(
    open_world: Callable[..., World], encrypt: Callable[[World], World]
) -> None:
    world = encrypt(open_world(limits=GatewayLimits(max_connections=2)))
    for _ in range(2):
        await world.client()
    assert await (await world.client()).closed()
    assert world.listener.handshakes is not None and len(world.listener.handshakes) == 2


async def test_an_address_above_its_rate_has_no_handshake(world: World, encrypt: Callable[[World], World]) -> None:
    """connection_creation_rate (KIP-612): a refused connection must cost nothing."""
    encrypt(world).listener.throttled = ThrottledConnections(lambda host, broker_id: 50, world.gateway.clock)
    assert await (await world.client()).closed()
    assert world.listener.throttled.refused_count == 1
    assert world.listener.handshakes is not None and world.listener.handshakes.failed_count == 0


async def test_an_idle_client_is_closed(
    open_world: Callable[..., World], encrypt: Callable[[World], World], authority: Authority
) -> None:
    world = encrypt(open_world(limits=GatewayLimits(idle_ms=60)))
    world.sweep()
    assert await (await client(world, authority)).closed()
    assert not world.gateway.connections


@pytest.mark.parametrize("count", [40])
async def test_clients_of_another_protocol_do_not_fill_the_log(world: World, count: int) -> None:
    """A TLS client at a plain port: closed with a line, but not each of a storm of them."""
    for _ in range(count):
        wrong = await world.client()
        wrong.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        assert await wrong.closed()
    whys = [line["why"] for line in world.logged() if line["event"] == "connection closed"]
    assert whys == ["a TLS handshake was sent to the plaintext Kafka port"] * 10


async def test_a_gateway_that_closes_ends_its_handshakes(world: World, encrypt: Callable[[World], World]) -> None:
    silent = await encrypt(world).client()
    handshakes: Any = world.listener.handshakes
    await turns_until(lambda: len(handshakes) == 1)
    world.listener.close()
    assert await silent.closed()

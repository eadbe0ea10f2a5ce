"""Several listeners of one gateway, and one port at which clients say by a host name which node they want."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from support.certificates import Authority
from support.gateway import Client, World
from support.ports import free_ports
from support.tls_client import client_tls
from tailrace.net.listeners.listener import ClientListener
from tailrace.net.tls.handshakes import open_handshakes
from tailrace.net.tls.settings import TlsSettings
from tailrace.wire import messages as m
from tailrace_gateway.listener import GatewayListener

HOST = "node-{nodeId}.kafka.test"
NAMES = "DNS:*.kafka.test,DNS:kafka.test"


@pytest.fixture
async def by_name(world: World, authority: Authority) -> AsyncIterator[GatewayListener]:
    """A second listener of the world, whose gateway has the nodes 0 and 2."""
    world.put_broker(2, await world.peer("broker-2"))
    server = authority.sign("nodes", "/CN=nodes", names=NAMES)
    tls = TlsSettings(keystore_location=str(server.both), keeps_names=True)
    listener = ClientListener("NODES", "SSL", ("127.0.0.1",), free_ports(1), HOST, 443, tls)
    handshakes = open_handshakes(tls, "DEFAULT", world.gateway.clock, world.gateway.log)
    opened = GatewayListener(world.gateway, listener, world.listener.throttled, handshakes)
    opened.open_node(0)
    world.follower.subscribe(opened.image_changed)
    yield opened
    opened.close()


async def client(world: World, at: GatewayListener, authority: Authority, name: str) -> Client:
    tls = client_tls(authority.certificate)
    opened = await asyncio.open_connection("127.0.0.1", at.base_port, ssl=tls, server_hostname=name)
    made = Client(*opened)
    world.clients.append(made)
    return made


@pytest.mark.parametrize(
    ("name", "node"),
    [("node-0.kafka.test", 0), ("NODE-2.kafka.test", 2), ("node-1.kafka.test", 0), ("kafka.test", 0)],
)
async def test_a_name_leads_to_its_node_and_any_other_to_one_that_lives(
    world: World, by_name: GatewayListener, authority: Authority, name: str, node: int
) -> None:
    asking = await client(world, by_name, authority, name)
    answer = await asking.ask(m.MetadataRequest(topics=[]), 9)
    told = [(broker.node_id, broker.host, broker.port) for broker in answer.brokers]
    assert told == [(0, "node-0.kafka.test", 443), (2, "node-2.kafka.test", 443)]
    (connection,) = world.gateway.connections
    assert connection.node_id == node


async def test_a_node_is_not_served_at_the_port_of_another_listener(world: World) -> None:
    """Two listeners at one port would share its connections: those of SASL would be answered without a login."""
    first, base = world.listener, world.listener.base_port
    logs_in = ClientListener("LOGIN", "SASL_PLAINTEXT", ("0.0.0.0",), base + 1)
    second = GatewayListener(world.gateway, logs_in, first.throttled)
    first.beside, second.beside = [second], [first]
    world.follower.subscribe(second.image_changed)
    world.put_live_broker(1)
    try:
        assert (list(first.nodes), list(second.nodes)) == ([0], [0, 1])
    finally:
        second.close()
    (said,) = [call for call in world.log.calls if call.kwargs.get("event") == "node port not open"]
    assert said.method_name == "error"
    assert f"node 1 is not served at listener PLAINTEXT: its port {base + 1} is that of listener LOGIN" in str(
        said.kwargs["why"]
    )


async def test_another_broker_needs_no_other_port(world: World, by_name: GatewayListener, authority: Authority) -> None:
    world.put_live_broker(7)
    assert list(by_name.nodes) == [0] and 7 in world.listener.nodes
    asking = await client(world, by_name, authority, "node-7.kafka.test")
    await asking.ask(m.MetadataRequest(topics=[]), 9)
    (connection,) = world.gateway.connections
    assert connection.node_id == 7


async def test_a_client_of_each_listener_is_told_its_addresses(
    world: World, by_name: GatewayListener, authority: Authority
) -> None:
    plain = await (await world.client()).ask(m.DescribeClusterRequest(endpoint_type=1), 1)
    assert [(row.host, row.port) for row in plain.brokers] == [
        ("127.0.0.1", world.listener.base_port),
        ("127.0.0.1", world.listener.base_port + 2),
    ]
    named = await client(world, by_name, authority, "node-2.kafka.test")
    answer = await named.ask(m.DescribeClusterRequest(endpoint_type=1), 1)
    assert [(row.host, row.port) for row in answer.brokers] == [("node-0.kafka.test", 443), ("node-2.kafka.test", 443)]

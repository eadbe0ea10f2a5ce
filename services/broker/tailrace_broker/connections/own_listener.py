"""The listener for clients at the broker itself, and what is served there (gateway.advertise=brokers)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from tailrace.config import Config
from tailrace.kafka.security_protocols import SECURITY_PROTOCOLS
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address
from tailrace.net.dispatch import Service
from tailrace.net.limits.deadlines import ConnectionDeadlines
from tailrace.net.listeners.listener import ClientListener
from tailrace.net.requests.metrics import RequestMetrics
from tailrace.net.sasl.authenticator import SaslAuthenticator
from tailrace.net.sasl.opening import sasl_handlers
from tailrace.net.server import Encryption, Server, serve
from tailrace_broker.connections.client_listener import GatewayRelay
from tailrace_broker.connections.limited import DirectClients
from tailrace_broker.hints import CLIENT_ENDPOINT


def for_clients(
    service: Service, relay: GatewayRelay, sasl: SaslAuthenticator, config: Config, request_metrics: RequestMetrics
) -> Service:
    """What clients are served at the broker itself; what is not its to answer goes on to a gateway."""
    return replace(
        service,
        internal=False,
        listener=CLIENT_ENDPOINT,
        handlers={**service.handlers, **sasl_handlers(sasl)},
        sasl=sasl,
        relay=relay.ask,
        on_close=relay.forget,
        max_connections=config.max_connections,
        deadlines=ConnectionDeadlines(config.connections_max_idle_ms, head_ms=10_000, dribble_ms=30_000),
        request_metrics=request_metrics,
        answers_after_end=True,
        on_end=relay.ended,
    )


def client_port(image: MetadataImage, node_id: int) -> int:
    """The port of this broker's earlier life, 0 if there was none: its clients come back there."""
    broker = image.brokers.get(node_id)
    endpoint = None if broker is None else broker.endpoint(CLIENT_ENDPOINT)
    return 0 if endpoint is None else endpoint.port


async def serve_clients(
    public: Service, direct: DirectClients, listener: ClientListener, port: int, encryption: Encryption | None
) -> Server:
    """gateway.advertise=brokers: clients come here, by this port if it is free."""
    if port:
        with suppress(OSError):
            return await serve([Address(host, port) for host in listener.hosts], public, direct.accepted, encryption)
    first, *others = listener.hosts
    server = await serve([Address(first, 0)], public, direct.accepted, encryption)
    for host in others:
        await server.listen(Address(host, server.addresses[0].port))
    return server


def client_endpoint(listener: ClientListener, server: Server) -> Endpoint:
    """The endpoint of the broker's own listener, as it is registered."""
    address, protocol = server.addresses[0], SECURITY_PROTOCOLS[listener.security_protocol]
    return Endpoint(CLIENT_ENDPOINT, address.host, address.port, protocol)

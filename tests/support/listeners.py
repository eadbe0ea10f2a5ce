"""A cluster with three listeners: plain, with logins at a port for each node, and with one port for all by names."""

from __future__ import annotations

import socket
from typing import Any, NamedTuple

from support.ports import HOST, free_ports
from tailrace.testing import Cluster

DOMAIN = "kafka.test"


class Listeners(NamedTuple):
    """Ports, each of node 0; `nodes` is that of both nodes."""

    plain: int
    external: int
    nodes: int

    @property
    def bootstrap(self) -> str:
        """At the listener NODES, by a name that the certificate has."""
        return f"node-0.{DOMAIN}:{self.nodes}"

    def told(self, node_id: int) -> tuple[str, int]:
        """What a client of the listener NODES is told of a node."""
        return f"node-{node_id}.{DOMAIN}", self.nodes


def three_listeners() -> tuple[Listeners, Cluster]:
    """Two brokers behind two gateways; not started yet."""
    first = free_ports(5)
    ports = Listeners(first, first + 2, first + 4)
    settings = {
        "listeners": f"LOCAL://{HOST}:{ports.plain},EXTERNAL://{HOST}:{ports.external},NODES://{HOST}:{ports.nodes}",
        "advertised.listeners": f"NODES://node-{{nodeId}}.{DOMAIN}:{ports.nodes}",
        "listener.security.protocol.map": "LOCAL:PLAINTEXT,EXTERNAL:SASL_SSL,NODES:SASL_SSL",
        "listener.name.nodes.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    return ports, Cluster(brokers=2, gateways=2, settings=settings, arguments=("--secure",))


def resolve_here(host: Any, *arguments: Any, real: Any = socket.getaddrinfo, **options: Any) -> Any:
    """socket.getaddrinfo with the names of the nodes on the loopback."""
    here = isinstance(host, str) and host.endswith(DOMAIN)
    return real(HOST if here else host, *arguments, **options)

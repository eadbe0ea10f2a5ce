"""The identity of a client: its user, where it comes from, and by which listener and broker it came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tailrace.net.address import Address
from tailrace.net.node_names import has_node_id, name_of

ANONYMOUS = "User:ANONYMOUS"
COORDINATOR_CLIENT_ID = "tailrace-coordinator"  # tells a coordinator from the other services


def user_of(principal: str) -> str:
    """The user's name in a principal: what quotas are set for."""
    return principal.partition(":")[2]


ANONYMOUS_USER = user_of(ANONYMOUS)  # of every client that shows no certificate


def principal_of(name: str | None) -> str:
    """A user's principal by the name that its certificate has (KafkaPrincipal); anonymous without one."""
    return ANONYMOUS if name is None else f"User:{name}"


class Identity(NamedTuple):
    """The client behind a connection: from its socket, or from the preamble an authenticated peer sent.

    advertised_host and base_port are what this client is told of the cluster's address; node n is at base_port + n, or
    by its own name at base_port where the host has {nodeId} in it.
    node_id is the broker whose port the client came by, -1 where that says nothing. session_expiry_ms is by the
    monotonic clock of the host that has the client's socket, -1 without an end; sasl_mechanism is empty without SASL.
    """

    principal: str = ANONYMOUS
    client_host: str = ""
    client_port: int = 0
    listener: str = ""
    advertised_host: str = ""
    base_port: int = 0
    session_expiry_ms: int = -1
    node_id: int = -1
    sasl_mechanism: str = ""

    @property
    def client(self) -> str:
        """The client's own address, as lines of the log name it."""
        return str(Address(self.client_host, self.client_port))

    def endpoint_of(self, node_id: int) -> Address:
        """What this client is told of a node's address."""
        if has_node_id(self.advertised_host):
            return Address(name_of(self.advertised_host, node_id), self.base_port)
        return Address(self.advertised_host, self.base_port + node_id)

    @property
    def is_service(self) -> bool:
        """Whether a role of this cluster asks for itself, not for a client: it came by the internal listener."""
        return self.listener == "INTERNAL"


def identity_of_socket(extra_info: Callable[[str], Any], listener: str) -> Identity:
    """The identity of the client at the other end of a socket, by what its transport knows of it."""
    peer, local = extra_info("peername"), extra_info("sockname")
    host, port = (peer[0], peer[1]) if isinstance(peer, tuple) and len(peer) >= 2 else ("", 0)
    advertised, base_port = (local[0], local[1]) if isinstance(local, tuple) and len(local) >= 2 else ("", 0)
    return Identity(
        extra_info("principal") or ANONYMOUS,
        client_host=host,
        client_port=port,
        listener=listener,
        advertised_host=advertised,
        base_port=base_port,
    )

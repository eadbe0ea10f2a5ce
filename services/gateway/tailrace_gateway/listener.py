"""The public ports: node n at the base port + n, on every listen host, kept open for a broker that is dead.

A listener whose clients name their node in TLS has one port for all of them.

SO_REUSEPORT lets several gateways of one host share the ports, so that losing one of them strands nobody.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any

from tailrace.config.hosts import hosts_meet
from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.identity import Identity, principal_of
from tailrace.net.limits.descriptors import make_room, most_descriptor
from tailrace.net.limits.seldom import SeldomWarning
from tailrace.net.listeners.listener import ClientListener
from tailrace.net.node_names import node_of
from tailrace.net.quotas.throttled_connections import ThrottledConnections, unlimited
from tailrace.net.server import bind_unix
from tailrace.net.tls.encrypted_socket import EncryptedSocket
from tailrace.net.tls.handshakes import Handshakes
from tailrace.net.transport.accepting import BACKLOG, Accepting, bind_tcp
from tailrace_gateway.answering import AnsweringGateway
from tailrace_gateway.clients.client import ClientLink
from tailrace_gateway.clients.encrypted_client import EncryptedClientLink
from tailrace_gateway.relay.routes import PREAMBLE_ONLY


class PortTakenError(OSError):
    """A port could not be had; the sentence says which."""


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return bind_tcp(family, (host, port), shared=True)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError(error.errno, f"port {port} of {host} is taken by another program") from error
        raise


def _close(sockets: Sequence[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


class InternalListener:
    """The Unix socket by which brokers relay what is not theirs to answer (gateway.advertise=brokers)."""

    def __init__(self, gateway: AnsweringGateway, path: str) -> None:
        self.gateway = gateway
        self.path = path
        sock = bind_unix(path)
        sock.listen(BACKLOG)
        sock.setblocking(False)
        failed = partial(gateway.log.error, "cannot accept", path=path)
        self._accepting = Accepting(sock, self._accepted, gateway.clock, lambda why: failed(why=why))

    def _accepted(self, sock: socket.socket, peer: Any) -> None:
        connection = ClientLink(sock, self.gateway, Identity(listener="INTERNAL"))
        connection.requests.table = PREAMBLE_ONLY
        self.gateway.connections.add(connection)
        connection.start()

    def close(self) -> None:
        self._accepting.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


class GatewayListener:
    """Listens for a gateway; `base_port` is known after `open_node(0)` when it was given as 0."""

    def __init__(
        self,
        gateway: AnsweringGateway,
        listener: ClientListener,
        throttled: ThrottledConnections | None = None,
        handshakes: Handshakes | None = None,
    ) -> None:
        """handshakes: of TLS; without them the ports are plain."""
        self.listener = listener
        self.handshakes = handshakes
        self.gateway = gateway
        self.throttled = unlimited(gateway.clock) if throttled is None else throttled
        self.hosts = list(listener.hosts)
        self.base_port = listener.port
        if handshakes is not None:
            gateway.handshakes.append(handshakes)
            self.throttled.per_ip.half_open.append(handshakes)
        self.nodes: dict[int, list[Accepting]] = {}
        self.beside: Sequence[GatewayListener] = ()  # all of this gateway
        self.most_descriptor = most_descriptor()
        self._refused = SeldomWarning(gateway.log, gateway.clock.monotonic_ms, "connection closed")

    def open_node(self, node_id: int) -> None:
        """Opens the node's port on every host; a host this machine does not have (no IPv6) is left out, but not all.

        Raises OSError, also where the port is another listener's.
        """
        if node_id in self.nodes:
            return
        self._check_beside(node_id)
        opened: list[socket.socket] = []
        for host in self.hosts:
            try:
                sock = _bind(host, self.base_port + node_id if self.base_port else 0)
            except PortTakenError:
                _close(opened)
                raise
            except OSError as error:
                if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    _close(opened)
                    raise
                self.gateway.log.warning("listen address left out", host=host, why=str(error))
                continue
            if not self.base_port:
                self.base_port = int(sock.getsockname()[1]) - node_id
            opened.append(sock)
        if not opened:
            raise OSError(
                errno.EADDRNOTAVAIL, f"none of the listen addresses {', '.join(self.hosts)} is of this machine"
            )
        self.nodes[node_id] = [self._accepting(sock, node_id) for sock in opened]

    def _check_beside(self, node_id: int) -> None:
        """A listener's ports end where those of another begin: SO_REUSEPORT would share the connections of both.

        By the base ports alone, so that all gateways of a host agree whose a port is.
        """
        port = self.base_port + node_id
        for other in self.beside:
            is_others = self.base_port < other.base_port <= port and (
                other.base_port == port or not other.listener.by_name
            )
            if is_others and hosts_meet(self.hosts, other.hosts):
                raise PortTakenError(
                    errno.EADDRINUSE,
                    f"node {node_id} is not served at listener {self.listener.name}: its port {port} is that of "
                    f"listener {other.listener.name}",
                )

    def _accepting(self, listening: socket.socket, node_id: int) -> Accepting:
        def accepted(sock: socket.socket, peer: Any) -> None:
            self._accepted(sock, peer, node_id)

        def failed(why: str) -> None:
            self.gateway.log.error("cannot accept", node=node_id, why=why)

        return Accepting(listening, accepted, self.gateway.clock, failed)

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """A port for each new broker; a dead one's stays."""
        if old.brokers is new.brokers or self.listener.by_name:
            return
        for node_id in new.brokers:
            try:
                self.open_node(node_id)
            except OSError as error:
                self.gateway.log.error("node port not open", node=node_id, why=error.strerror or str(error))

    @property
    def addresses(self) -> list[str]:
        """host:port of node 0 on every host."""
        named = [accepting.listening.getsockname()[:2] for accepting in self.nodes.get(0, [])]
        return [str(Address(host, port)) for host, port in named]

    def told_here(self) -> tuple[str, int]:
        """Host and port that clients at the listener's first address are told, of node 0 or by {nodeId} of all."""
        if self.listener.by_name and self.listener.advertised_host is not None:
            return self.listener.advertised_host, self.listener.advertised_port or self.base_port
        return self.hosts[0], self.base_port

    def _accepted(self, sock: socket.socket, peer: Any, node_id: int) -> None:
        gateway = self.gateway
        room = gateway.room
        if sock.fileno() > self.most_descriptor and not make_room(gateway.connections):
            self._refused.say(why="few file descriptors are left", client=str(Address(*peer[:2])))
            sock.close()
            return
        if self.throttled.refused(sock, peer[0], node_id, room):
            return
        if len(self.throttled) >= room:
            self._refused.say(why="max.connections are open", client=str(Address(*peer[:2])))
            sock.close()
            return
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        gateway.limits.buffers.set_on(sock)
        identity = Identity(
            client_host=peer[0],
            client_port=peer[1],
            listener="CLIENT",
            advertised_host=self.listener.advertised_host or sock.getsockname()[0],
            base_port=self.listener.advertised_port or self.base_port,
            node_id=node_id,
        )
        if self.handshakes is None:
            self._serve(ClientLink(sock, self.gateway, identity))
        else:
            self.handshakes.begin(sock, identity.client, partial(self._encrypts, identity))

    def _encrypts(self, identity: Identity, sock: EncryptedSocket, name: str | None) -> None:
        """A client is through its handshake."""
        node_id = self._node_named(sock.server_name) if self.listener.by_name else identity.node_id
        identity = identity._replace(principal=principal_of(name), node_id=node_id)
        self._serve(EncryptedClientLink(sock, self.gateway, identity))

    def _node_named(self, server_name: str | None) -> int:
        """The broker whose name the client asks for; for the name of the cluster the first that lives."""
        image = self.gateway.image
        node_id = node_of(self.listener.advertised_host or "", server_name)
        if node_id is not None and node_id in image.brokers:
            return node_id
        return next((broker.broker_id for broker in image.live_brokers()), 0)

    def _serve(self, connection: ClientLink) -> None:
        self.gateway.sasl.begin(connection.session, self.listener.mechanisms)
        self.gateway.connections.add(connection)
        self.throttled.per_ip.opened(connection, connection.session.identity.client_host)
        connection.on_closed = self.throttled.per_ip.closed
        connection.start()

    def close(self) -> None:
        """Closes the ports; connections stay."""
        for node in self.nodes.values():
            for accepting in node:
                accepting.close()
        self.nodes.clear()
        if self.handshakes is not None:
            self.handshakes.close()

"""The listeners of clients: Kafka's `listeners` with all that belongs to them, or the one of the gateway.* keys.

A gateway has each of them for every node: node n is at the listener's port + n, or, where the advertised host has
{nodeId} in it, at one port by its host name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Final

from tailrace.config import Config, ConfigError
from tailrace.config.hosts import WILDCARDS, hosts_meet, is_loopback
from tailrace.kafka.security_protocols import encrypts, logs_in
from tailrace.net.listeners.endpoints import ListenerEndpoint, advertised, listening, protocol_map
from tailrace.net.node_names import NODE_ID, has_node_id, name_of
from tailrace.net.sasl.settings import enabled_mechanisms
from tailrace.net.tls.settings import TlsSettings, listener_settings

_LISTENERS: Final = "listeners"
_SHORT_FORM: Final = (
    "gateway.listen",
    "gateway.port",
    "gateway.advertised.host",
    "gateway.advertised.port",
    "gateway.security.protocol",
    "gateway.advertise",
)
_OF_LISTENERS: Final = ("advertised.listeners", "listener.security.protocol.map")
# As Apache Kafka binds them: both families where the machine has both.
_EVERYWHERE: Final = WILDCARDS
_LOOPBACK: Final = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class ClientListener:
    """One listener. advertised_host None: the address that a client connected to; advertised_port None: `port`."""

    name: str
    security_protocol: str
    hosts: tuple[str, ...]
    port: int  # of node 0, or of every node
    advertised_host: str | None = None
    advertised_port: int | None = None
    tls: TlsSettings | None = None
    principal_rules: str = "DEFAULT"  # ssl.principal.mapping.rules
    mechanisms: tuple[str, ...] = ()  # of SASL; without any, clients do not log in

    @property
    def by_name(self) -> bool:
        """Whether all nodes have one port, and a client's TLS says by a host name which of them it wants."""
        return self.advertised_host is not None and has_node_id(self.advertised_host)

    @property
    def has_login(self) -> bool:
        """Whether clients must log in, or show a certificate."""
        return logs_in(self.security_protocol) or (self.tls is not None and self.tls.client_auth == "required")

    @property
    def is_safe(self) -> bool:
        """Whether other machines may reach it: with a login, over TLS."""
        return encrypts(self.security_protocol) and self.has_login

    @property
    def open_hosts(self) -> tuple[str, ...]:
        """The addresses that other machines reach."""
        return tuple(host for host in self.hosts if not is_loopback(host))

    def advertised_names(self, nodes: int) -> list[str]:
        """The hosts that clients are told, as far as they are known."""
        host = self.advertised_host
        if host is None:
            return []
        return [name_of(host, node_id) for node_id in range(nodes)] if self.by_name else [host]

    def ports(self, nodes: int) -> range:
        """What so many nodes take."""
        return range(self.port, self.port + (1 if self.by_name else max(nodes, 1)))


def listeners_of(config: Config) -> tuple[ClientListener, ...]:
    """The listeners of clients, one at least. Raises ConfigError."""
    given = config.static.get(_LISTENERS)
    if given is None or not given.value:  # an empty variable: none, though the key may be empty
        lone = [key for key in _OF_LISTENERS if key in config.static]
        if lone:
            raise ConfigError(f"{' and '.join(lone)} cannot be set without {_LISTENERS}.")
        return (_short_form(config),)
    short = [key for key in _SHORT_FORM if key in config.static and config.static[key].value is not None]
    if short:
        raise ConfigError(
            f"{_LISTENERS} and {', '.join(short)} cannot both be set: the keys gateway.* are a short form of one "
            f"listener, and {_LISTENERS} names them all."
        )
    return tuple(_of_listeners(config))


def admin_listener(config: Config) -> ClientListener:
    """The admin port: at the addresses of the first listener, with its keys ssl.*. Raises ConfigError."""
    first = listeners_of(config)[0]
    protocol = config.admin_security_protocol or first.security_protocol
    own = config.for_listener(first.name)
    return ClientListener(
        "ADMIN",
        protocol,
        first.hosts,
        config.admin_port,
        tls=listener_settings(own, protocol),
        principal_rules=own.ssl_principal_mapping_rules,
    )


def mechanisms_of(listeners: Iterable[ClientListener]) -> tuple[str, ...]:
    """What any of them takes."""
    return tuple(dict.fromkeys(one for listener in listeners for one in listener.mechanisms))


def overlap(listeners: Sequence[ClientListener], nodes: int) -> str | None:
    """Why so many nodes do not fit beside each other, in one sentence; None if they do."""
    for at, one in enumerate(listeners):
        for other in listeners[at + 1 :]:
            both = sorted(set(one.ports(nodes)) & set(other.ports(nodes)) - {0})
            if both and hosts_meet(one.hosts, other.hosts):
                return (
                    f"The listeners {one.name} and {other.name} both need port {both[0]}: node n is at a listener's "
                    f"port + n, and there are {nodes} nodes."
                )
    return None


def without_listener(config: Config) -> tuple[str, ...]:
    """The configs listener.name.* of what is no listener: misspelled, most likely. Raises ConfigError."""
    names = (*(one.name for one in listeners_of(config)), *config.controller_listener_names)
    known = {name.lower() for name in names}
    stray = ((name, keys) for name, keys in config.of_listeners.items() if name not in known)
    return tuple(f"listener.name.{name}.{key}" for name, keys in stray for key in keys)


def _short_form(config: Config) -> ClientListener:
    protocol = config.gateway_security_protocol
    config = config.for_listener(protocol)
    return ClientListener(
        protocol,
        protocol,
        tuple(config.gateway_listen),
        config.gateway_port,
        config.gateway_advertised_host,
        config.gateway_advertised_port,
        listener_settings(config, protocol),
        config.ssl_principal_mapping_rules,
        enabled_mechanisms(config, protocol, f"gateway.security.protocol={protocol}"),
    )


def _of_listeners(config: Config) -> Iterable[ClientListener]:
    bound = listening(_LISTENERS, config.listeners)
    of_controllers = {name.upper() for name in config.controller_listener_names}
    of_clients = [one for one in bound if one.name not in of_controllers]
    if not of_clients:
        raise ConfigError(f"{_LISTENERS} has no listener for clients: controller.listener.names takes what is there.")
    told = advertised("advertised.listeners", config.advertised_listeners or (), [one.name for one in bound])
    protocols = protocol_map("listener.security.protocol.map", config.listener_security_protocol_map)
    for one in of_clients:
        if one.name not in protocols:
            raise ConfigError(f"No security protocol defined for listener {one.name}: listener.security.protocol.map.")
        yield _listener(config, one, told.get(one.name), protocols[one.name])


def _listener(config: Config, bound: ListenerEndpoint, told: ListenerEndpoint | None, protocol: str) -> ClientListener:
    if told is not None and has_node_id(told.host) and not encrypts(protocol):
        raise ConfigError(
            f"advertised.listeners: {told} needs TLS, by which clients say which node they want ({NODE_ID}), and the "
            f"listener {bound.name} is {protocol}."
        )
    own = config.for_listener(bound.name)
    tls = listener_settings(own, protocol)
    if tls is not None and told is not None and has_node_id(told.host):
        tls = replace(tls, keeps_names=True)
    return ClientListener(
        bound.name,
        protocol,
        _hosts(bound.host),
        bound.port,
        (told.host or None) if told is not None else _name(bound.host),
        None if told is None else told.port,
        tls,
        own.ssl_principal_mapping_rules,
        enabled_mechanisms(own, protocol, f"The listener {bound.name} ({protocol})"),
    )


def _hosts(host: str) -> tuple[str, ...]:
    if not host:
        return _EVERYWHERE
    return _LOOPBACK if host.lower() == "localhost" else (host,)


def _name(host: str) -> str | None:
    """What clients are told of a listener that is not advertised: its name, which certificates have, or an address."""
    try:
        ip_address(host)
    except ValueError:
        return host if host and host.lower() != "localhost" else None
    return None

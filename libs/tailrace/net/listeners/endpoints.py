"""The texts of listeners, advertised.listeners and listener.security.protocol.map, refused as in Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final, NamedTuple

from tailrace.config import ConfigError
from tailrace.config.hosts import WILDCARDS, is_host
from tailrace.kafka.security_protocols import SECURITY_PROTOCOLS
from tailrace.net.node_names import NODE_ID

_PORT_MAX: Final = 65_535
_ENDPOINT: Final = re.compile(r"([A-Za-z0-9_-]+)://(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/]*)):([0-9]{1,5})", re.ASCII)


class ListenerEndpoint(NamedTuple):
    """`NAME://host:port`; an empty host is every address of the machine."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def listening(key: str, texts: Iterable[str]) -> list[ListenerEndpoint]:
    """Of `listeners`: each name once, and each port, but for one IPv4 with one IPv6 address. Raises ConfigError."""
    found = _parsed(key, texts)
    for one in found:
        if one.host and not is_host(one.host):
            raise ConfigError(f"{key}: {one} has no host name or IP address.")
    ports = [one.port for one in found if one.port]
    for port in {port for port in ports if ports.count(port) > 1}:
        families = sorted(_family(one.host) for one in found if one.port == port)
        if families != [4, 6]:
            raise ConfigError(
                f"{key}: If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, "
                f"port: {port}."
            )
    return found


def advertised(key: str, texts: Iterable[str], names: Iterable[str]) -> dict[str, ListenerEndpoint]:
    """Of `advertised.listeners`, by name; names: of listeners. Raises ConfigError."""
    known = list(names)
    found = {one.name: one for one in _parsed(key, texts)}
    for one in found.values():
        if one.name not in known:
            raise ConfigError(
                f"{key} listener names must be equal to or a subset of the ones defined in listeners: {one.name} is "
                f"none of {', '.join(known)}."
            )
        if one.host in WILDCARDS:
            raise ConfigError(
                f"{key} cannot use the nonroutable meta-address {one.host}. Use a routable IP address or a host name."
            )
        if not one.port:
            raise ConfigError(f"{key}: clients cannot connect to port 0 of {one}.")
        if one.host and not (one.host.count(NODE_ID) <= 1 and is_host(one.host.replace(NODE_ID, "0"))):
            raise ConfigError(
                f"{key}: {one} has no host name or IP address, nor a name of each node with {NODE_ID} in it once."
            )
    return found


def protocol_map(key: str, text: str) -> dict[str, str]:
    """Listener name -> security protocol. Raises ConfigError."""
    found: dict[str, str] = {}
    for pair in filter(None, (pair.strip() for pair in text.split(","))):
        name, colon, protocol = (part.strip() for part in pair.partition(":"))
        if not (name and colon):
            raise ConfigError(f"{key}: {pair} is not NAME:PROTOCOL.")
        if protocol.upper() not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"Invalid security protocol `{protocol}` defined in {key}: there are {', '.join(SECURITY_PROTOCOLS)}."
            )
        if name.upper() in found:
            raise ConfigError(f"{key} has {name.upper()} twice.")
        found[name.upper()] = protocol.upper()
    return found


def _parsed(key: str, texts: Iterable[str]) -> list[ListenerEndpoint]:
    found: list[ListenerEndpoint] = []
    for text in texts:
        match = _ENDPOINT.fullmatch(text.strip())
        if match is None or int(match[4]) > _PORT_MAX:
            raise ConfigError(f"{key}: Unable to parse {text} to a broker endpoint: expected NAME://HOST:PORT.")
        one = ListenerEndpoint(match[1].upper(), match[2] or match[3] or "", int(match[4]))
        if any(one.name == other.name for other in found):
            raise ConfigError(f"{key}: Each listener must have a different name, and {one.name} is there twice.")
        found.append(one)
    return found


def _family(host: str) -> int:
    """4 or 6 of an address; 0 of a name, which may have both."""
    try:
        return ip_address(host).version
    except ValueError:
        return 0

"""The hosts of ACLs: all (`*`), an address, or a range of addresses as `10.0.0.0/8` (KIP-1276)."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

ALL_HOSTS: Final = "*"

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def address_of(host: str) -> Address | None:
    """The address of a peer or of an ACL; one of IPv4 inside IPv6 is one of IPv4, as in Java."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def covers(pattern: str, host: str) -> bool:
    """Whether an ACL with this host counts for a client at that address."""
    if pattern in (ALL_HOSTS, host):
        return True
    expected = _parsed(pattern)
    if expected is None:
        return False
    address = _address(host)
    return address == expected if isinstance(expected, Address) else address is not None and address in expected


def invalid_host(pattern: str) -> str | None:
    """What is wrong with a range in a new ACL. Any other text is taken, as in Kafka; most match no client."""
    if not pattern:
        return "Host pattern cannot be null or empty"
    if "/" in pattern and not isinstance(_parsed(pattern), Network):
        return f"Invalid CIDR notation '{pattern}': Could not parse [{pattern}]"
    return None


@lru_cache(10_000)
def _parsed(pattern: str) -> Address | Network | None:
    if "/" not in pattern:
        return address_of(pattern)
    _, _, prefix = pattern.partition("/")
    if not (prefix.isascii() and prefix.isdigit()):  # ip_network also takes a mask
        return None
    try:
        return ip_network(pattern, strict=False)
    except ValueError:
        return None


_address = lru_cache(10_000)(address_of)

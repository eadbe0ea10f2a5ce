"""Where a service of the image can be reached from here."""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address

INTERNAL = "INTERNAL"
ROOT = "@"  # what is behind it in a boot id names the root of the file tree, which each container has for itself


def unix_name(boot_id: str) -> str:
    """The endpoint name of a Unix socket that only this boot of this host, or this container, can open."""
    return f"UNIX-{boot_id}"


def _host_name(boot_id: str) -> str:
    """The same before containers were told apart: what other versions of Tailrace publish and look for."""
    return unix_name(boot_id.partition(ROOT)[0])


def address_of(endpoints: Iterable[Endpoint], boot_id: str) -> Address | None:
    """Returns its Unix socket if this boot of this host or container published it, else its INTERNAL address.

    A service that publishes the boot alone is of a version that knew no containers, so it is on this host.
    """
    ours, host = unix_name(boot_id), _host_name(boot_id)
    internal = on_host = None
    tells_containers = False
    for endpoint in endpoints:
        if endpoint.name == INTERNAL:
            internal = Address(endpoint.host, endpoint.port)
        elif endpoint.name == ours:
            return Address(endpoint.host, -1)
        elif endpoint.name == host:
            on_host = Address(endpoint.host, -1)
        else:
            tells_containers |= endpoint.name.startswith(host + ROOT)
    return internal if on_host is None or tells_containers else on_host


def endpoints_of(address: Address, boot_id: str) -> list[Endpoint]:
    """Returns the endpoints under which a service publishes an address it listens on."""
    if not address.is_unix:
        return [Endpoint(INTERNAL, address.host, address.port)]
    names = dict.fromkeys((unix_name(boot_id), _host_name(boot_id)))
    return [Endpoint(name, address.host, 0) for name in names]

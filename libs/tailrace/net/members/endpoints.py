"""Where a service of the image can be reached from here."""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address

INTERNAL = "INTERNAL"


def unix_name(boot_id: str) -> str:
    """The endpoint name of a Unix socket that only this boot of this host can open."""
    return f"UNIX-{boot_id}"


def address_of(endpoints: Iterable[Endpoint], boot_id: str) -> Address | None:
    """Returns its Unix socket if this boot of this host published it, else its INTERNAL address."""
    found = None
    for endpoint in endpoints:
        if endpoint.name == unix_name(boot_id):
            return Address(endpoint.host, -1)
        if endpoint.name == INTERNAL:
            found = Address(endpoint.host, endpoint.port)
    return found


def endpoint_of(address: Address, boot_id: str) -> Endpoint:
    """Returns the endpoint under which a service publishes an address it listens on."""
    if address.is_unix:
        return Endpoint(unix_name(boot_id), address.host, 0)
    return Endpoint(INTERNAL, address.host, address.port)

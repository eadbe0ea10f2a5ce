"""Where a role listens for the other roles: a Unix socket in the run directory, or what internal.listen says."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from pathlib import Path

from tailrace.config import Config, ConfigError
from tailrace.config.hosts import WILDCARDS
from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address
from tailrace.net.client import SaslLogin
from tailrace.net.members.endpoints import endpoints_of
from tailrace.private_files import private_folder

NEEDS_SECRET = (
    "is TCP, where roles log in with the cluster's secret, and there is none: give all hosts the same file, "
    "as internal.secret.file or as cluster.secret in data.dir."
)


def internal_address(config: Config, run_dir: Path | None, name: str, secret: SaslLogin | None) -> Address:
    """The one address of a role called `name`, like coordinator-0; makes the run directory.

    internal.listen (HOST or HOST:PORT, port 0 picks one) puts it on TCP, for roles on several hosts: connections begin
    with a login with the cluster's secret, without which it is refused. Raises ConfigError.
    """
    listen = config.internal_listen
    if listen:
        address = _tcp(listen)
        if address.host in WILDCARDS and not config.internal_advertised_host:
            raise ConfigError(
                f"internal.listen={listen!r} is every address of this machine: "
                "internal.advertised.host says which one the other roles use."
            )
        if secret is None:
            raise ConfigError(f"internal.listen={listen!r} {NEEDS_SECRET}")
        return address
    if run_dir is None:
        return Address("127.0.0.1", 0)
    private_folder(run_dir)
    return Address(str(run_dir / f"{name}.sock"), -1)


def advertised_address(config: Config, bound: Address) -> Address:
    """What the other roles are told of an address that is bound: with internal.advertised.host, if it is TCP.

    A name is looked up at each connection, so that it may get another IP address, as containers do.
    """
    host = config.internal_advertised_host
    return bound if bound.is_unix or not host else Address(host, bound.port)


def advertised_endpoints(config: Config, bound: Iterable[Address], boot_id: str) -> list[Endpoint]:
    """Under which a role registers with the addresses that it has bound."""
    return [endpoint for address in bound for endpoint in endpoints_of(advertised_address(config, address), boot_id)]


def _tcp(listen: str) -> Address:
    bare = listen.count(":") != 1 and not listen.startswith("[")
    try:
        address = Address(listen, 0) if bare else Address.parse(listen)
        ipaddress.ip_address(address.host)
    except ValueError as wrong:
        raise ConfigError(f"internal.listen={listen!r} is not an IP address with or without a port: {wrong}") from None
    return address

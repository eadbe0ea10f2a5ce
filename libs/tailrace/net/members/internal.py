"""Where a role listens for the other roles: a Unix socket in the run directory, or what internal.listen says."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from tailrace.config import Config, ConfigError
from tailrace.net.address import Address
from tailrace.private_files import private_folder


def internal_address(config: Config, run_dir: Path | None, name: str) -> Address:
    """The one address of a role called `name`, like coordinator-0; makes the run directory.

    internal.listen (HOST or HOST:PORT, port 0 picks one) puts it on TCP, for roles on several hosts. Internal listeners
    do not authenticate yet, so beyond the loopback they must be allowed with internal.insecure. Raises ConfigError.
    """
    listen = config.internal_listen
    if listen:
        return _tcp(listen, insecure=config.internal_insecure)
    if run_dir is None:
        return Address("127.0.0.1", 0)
    private_folder(run_dir)
    return Address(str(run_dir / f"{name}.sock"), -1)


def _tcp(listen: str, *, insecure: bool) -> Address:
    bare = listen.count(":") != 1 and not listen.startswith("[")
    try:
        address = Address(listen, 0) if bare else Address.parse(listen)
        loopback = ipaddress.ip_address(address.host).is_loopback
    except ValueError as wrong:
        raise ConfigError(f"internal.listen={listen!r} is not an IP address with or without a port: {wrong}") from None
    if not loopback and not insecure:
        raise ConfigError(
            f"internal.listen={listen!r} is beyond the loopback, where other roles are not authenticated yet: "
            "set internal.insecure=true if nobody else can reach that network."
        )
    return address

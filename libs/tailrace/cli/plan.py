"""What `up` starts: which instances in which order, with which settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tailrace.net.address import Address

if TYPE_CHECKING:
    from tailrace.cli.options import UpOptions  # and argparse, which `tailrace --help` does without

# Starting order; stopping is the reverse. No role waits for another, but this order has the fewest retries.
ROLES = ("controller", "broker", "coordinator", "quota", "gateway")
TABLE = "table"  # the worker of `tailrace table run`, which `up` starts when a topic asks for it
# sun_path of unix(7) holds 108 bytes with its NUL.
_SOCKET_PATH_MAX = 107
_LONGEST_SOCKET_NAME = "coordinator-99.sock"
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Locks(NamedTuple):
    """Which listeners ask for a login."""

    clients: bool
    admin: bool


class Instance(NamedTuple):
    role: str
    id: int

    @property
    def name(self) -> str:
        return f"{self.role}-{self.id}"


def instances(options: UpOptions) -> list[Instance]:
    return [Instance(role, number) for role in ROLES for number in range(options.counts[role])]


def socket_dir(data_dir: Path, runtime_dir: str | None) -> Path:
    """DIR/run, or a short path that belongs to DIR where DIR is too long for a Unix socket's address.

    Likewise where it has a comma, which ends an address of controller.quorum.bootstrap.servers.
    """
    run_dir = data_dir / "run"
    if len(str(run_dir / _LONGEST_SOCKET_NAME).encode()) <= _SOCKET_PATH_MAX and "," not in str(run_dir):
        return run_dir
    import hashlib

    digest = hashlib.sha256(str(data_dir).encode()).hexdigest()[:12]
    return Path(runtime_dir or "/tmp") / f"tailrace-{digest}"


def controllers(options: UpOptions, sockets: Path) -> list[Address]:
    """Where the controllers listen for the other roles."""
    return [Address(str(sockets / f"controller-{number}.sock"), -1) for number in range(options.counts["controller"])]


def settings(
    options: UpOptions, sockets: Path, port: int, listen: tuple[str, ...], instance: Instance
) -> dict[str, str]:
    """The configs of one instance; what --set says comes last and wins. listen: empty with the config `listeners`."""
    chosen = {
        "data.dir": str(options.data_dir),
        "run.dir": str(sockets),
        "node.id": str(instance.id),
        "controller.quorum.bootstrap.servers": ",".join(map(str, controllers(options, sockets))),
        "admin.port": str(options.admin_port),
    }
    if listen:
        chosen["gateway.listen"] = ",".join(listen)
        chosen["gateway.port"] = str(port)
    if options.advertised_host:
        chosen["gateway.advertised.host"] = options.advertised_host
    if options.advertised_port:
        chosen["gateway.advertised.port"] = str(options.advertised_port)
    return {**chosen, **options.settings}


def reachable(host: str, port: int) -> str:
    """An address that a client on this machine can use for a socket bound to `host`."""
    return str(Address(_WILDCARDS.get(host, host), port))


def is_local(at: Address) -> bool:
    """Whether only this machine reaches a listener."""
    from tailrace.config.hosts import is_loopback  # here: the daily commands do without the configs

    return at.is_unix or is_loopback(at.host)


def bound(listeners: Iterable[Address]) -> str:
    """The addresses that are bound, where they are not this machine's alone."""
    found = list(listeners)
    if all(map(is_local, found)):
        return ""
    return f"bound to {', '.join(map(str, found))}"


def open_without_login(
    clients: Iterable[Address],
    admin: Iterable[Address],
    running: Iterable[tuple[str, Mapping[str, str]]],
    locks: Locks,
) -> Iterator[str]:
    """What other machines may reach and no login is asked for.

    clients, admin: the gateway's. running: each role with its addresses.
    """
    found = [] if locks.clients else [(at, "Kafka clients") for at in clients]
    found += [] if locks.admin else [(at, "REST API and console") for at in admin]
    for role, addresses in running:
        if role == "broker" and not locks.clients:
            found += [
                (Address.parse(text), "Kafka clients of a broker")
                for text in addresses.get("client", "").split(",")
                if text
            ]
        found += [(Address.parse(addresses[name]), f"metrics of a {role}") for name in ("http",) if name in addresses]
    for at, what in found:
        if not is_local(at):
            yield f"{at} ({what})"

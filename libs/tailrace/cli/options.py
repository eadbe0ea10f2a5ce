"""The options of `tailrace up`. argparse, because typer costs the start path 70 ms and more."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tailrace.runtime import logs
from tailrace.runtime.run_files import default_data_dir

_PORT_MAX = 65_535
_LISTEN, _PORT = "127.0.0.1,::1", 9092
_INSTANCES_MAX = 100
_COPIES = 3
_SECURE = "TLS and logins: makes certificates, a user `admin` and files for clients in DIR/clients"
_SET = "a Kafka config for all roles; may be repeated; group.initial.rebalance.delay.ms is 50 unless set (Kafka: 3000)"


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What was asked for; `settings` are the defaults of so many brokers under the --set pairs, later ones win.

    listen: empty where the config `listeners` names the addresses.
    """

    data_dir: Path
    counts: Mapping[str, int]
    listen: tuple[str, ...]
    port: int
    admin_port: int
    advertised_host: str | None
    advertised_port: int | None
    tables: str | None
    settings: Mapping[str, str]
    restart: bool
    inline: bool
    secure: bool
    json: bool
    until_eof: bool
    log_format: logs.Format | None
    log_level: str


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> UpOptions:
    """Exits with 2 and a usage line where an option makes no sense."""
    parser = _parser(environ)
    given = parser.parse_args(arguments)
    settings = defaults(given.brokers, environ) | dict(_pair(parser, item) for item in given.set)
    if given.secure and given.insecure:
        parser.error("--secure and --insecure exclude each other")
    names_listeners = "listeners" in settings or bool(environ.get("KAFKA_LISTENERS"))
    for option, value in (("--listen", given.listen), ("--port", given.port), ("--advertise", given.advertise)):
        if names_listeners and value is not None:
            parser.error(f"{option} is of one listener, and listeners names them all")
    if given.listen is None:
        given.listen = environ.get("TAILRACE_GATEWAY_LISTEN") or _LISTEN
    if given.port is None:
        given.port = _PORT
    if given.secure and "gateway.security.protocol" in settings:
        parser.error("--secure chooses gateway.security.protocol; without it the other keys are yours, too")
    if given.insecure:
        settings["allow.insecure.listeners"] = "true"
    if given.metadata_url:
        settings["metadata.url"] = given.metadata_url
    if given.quota_url:
        settings["quota.url"] = given.quota_url
    database = settings.get("metadata.url") or environ.get("TAILRACE_METADATA_URL", "")
    if given.controllers > 1 and not database.startswith("postgresql"):
        parser.error("several controllers need a shared database: --metadata-url postgresql://… (SQLite holds one)")
    host, port = (None, None) if given.advertise is None else _advertise(parser, given.advertise)
    for option, first in (("--port", given.port), ("--advertise", port)):
        if first and first + given.brokers - 1 > _PORT_MAX:
            parser.error(f"{option} {first} with {given.brokers} brokers goes past port {_PORT_MAX}")
    if not names_listeners and given.port and given.port <= given.admin_port < given.port + given.brokers:
        parser.error(f"--admin-port {given.admin_port} is the port of node {given.admin_port - given.port}, too")
    if not given.data:
        parser.error("--data: expected a directory")
    return UpOptions(
        data_dir=_data_dir(parser, given.data),
        counts={
            "controller": given.controllers,
            "broker": given.brokers,
            "coordinator": given.coordinators,
            "quota": given.quotas,
            "gateway": given.gateways,
        },
        listen=() if names_listeners else _listen(parser, given.listen),
        port=given.port,
        admin_port=given.admin_port,
        advertised_host=host,
        advertised_port=port,
        tables=_tables(parser, given.tables),
        settings=settings,
        restart=not given.no_restart,
        inline=given.inline,
        secure=given.secure,
        json=given.json,
        until_eof=given.until_eof,
        log_format=given.log_format,
        log_level=given.log_level,
    )


def defaults(brokers: int, environ: Mapping[str, str]) -> dict[str, str]:
    """What `up` sets where nobody else does, neither --set nor the environment.

    A new group waits 50 ms for more members, not three seconds. With 0, as in Apache Kafka's quickstart, members
    that start together pay a second rebalance, which some clients begin only after their heartbeat interval of 3 s.
    Several brokers keep several copies: three where there are three, two of them acknowledged (Kafka's own: 1 and 1).
    Of two brokers one may be away, for transactions as for topics (Kafka's transaction.state.log.min.isr: 2).
    """
    chosen = {"group.initial.rebalance.delay.ms": "50"}
    if brokers > 1:
        chosen["default.replication.factor"] = str(min(_COPIES, brokers))
    if brokers >= _COPIES:
        chosen["min.insync.replicas"] = "2"
    elif brokers > 1:
        chosen["transaction.state.log.min.isr"] = "1"
    return {key: value for key, value in chosen.items() if not environ.get(f"KAFKA_{key.replace('.', '_').upper()}")}


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tailrace up",
        description="Starts a whole cluster on this machine. Ids count from 0 in every role; node n is at port + n.",
        allow_abbrev=False,
    )
    for role in ("brokers", "gateways", "controllers", "coordinators", "quotas"):
        copies = "; new topics get 3 replicas where there are 3, and min.insync.replicas 2" if role == "brokers" else ""
        parser.add_argument(f"--{role}", type=_instances, default=1, metavar="N", help=f"default 1{copies}")
    add = parser.add_argument
    add("--data", metavar="DIR", default=str(default_data_dir(environ)), help="default %(default)s")
    listen = environ.get("TAILRACE_GATEWAY_LISTEN") or _LISTEN
    add("--listen", metavar="HOST", help=f"comma separated; default {listen}; several listeners: --set listeners=…")
    add("--port", type=_port, help=f"of node 0; 0 picks a free block; default {_PORT}")
    add("--advertise", metavar="HOST[:PORT]", help="what clients are told; default: the address they connected to")
    add("--admin-port", type=_port, default=8080, metavar="PORT", help="0 picks one; default %(default)s")
    add(
        "--metadata-url",
        metavar="URL",
        help="default: SQLite in DIR/metadata.db; with a password: TAILRACE_METADATA_URL",
    )
    add(
        "--quota-url",
        metavar="URL",
        help="redis://HOST:PORT/DB; default: in memory; with a password: TAILRACE_QUOTA_URL",
    )
    add("--secure", action="store_true", help=_SECURE)
    add("--insecure", action="store_true", help="let other machines use ports that ask for no login (--listen)")
    tables = environ.get("TAILRACE_TABLES")
    add("--tables", metavar="DIR|URL", default=tables, help="of topics as tables; default: the data directory")
    add("--set", metavar="KEY=VALUE", action="append", default=[], help=_SET)
    add("--no-restart", action="store_true", help="leave a dead child dead")
    add("--inline", action="store_true", help="all roles in one process and one event loop, for debuggers and tests")
    add("--log-format", choices=logs.FORMATS, help="default: colour on a terminal, else logfmt")
    add("--log-level", choices=logs.LEVELS, default="info", help="default %(default)s")
    add("--json", action="store_true", help="events on stdout as JSON lines, for programs")
    add("--until-eof", action="store_true", help="stop when stdin ends, for programs")
    return parser


def _data_dir(parser: argparse.ArgumentParser, text: str) -> Path:
    path = Path(text).expanduser().absolute()
    if why := unfit_data_dir(path):
        parser.error(f"--data {why}")
    return path


def unfit_data_dir(path: Path) -> str | None:
    """Why a config's value or an SQLite URL would name another place; None if neither would."""
    if "?" in str(path) or str(path) != str(path).strip() or not str(path).isprintable():
        return f"{str(path)!r}: its path has a question mark, a control character or a space at its end"
    return None


def _pair(parser: argparse.ArgumentParser, item: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals or not key:
        parser.error(f"--set {item}: expected key=value")
    return key.strip(), value


def _advertise(parser: argparse.ArgumentParser, text: str) -> tuple[str, int | None]:
    """HOST, HOST:PORT, [V6], [V6]:PORT or a bare V6."""
    from tailrace.config.hosts import Host  # here: the daily commands need neither

    bracketed, host, port = text.startswith("["), text, ""
    if bracketed:
        host, closing, port = text[1:].partition("]")
        port = port.removeprefix(":") if closing and port[:1] in {"", ":"} and port != ":" else "none"
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
        port = port or "none"
    if port and (not port.isdecimal() or not 0 < int(port) <= _PORT_MAX):
        parser.error(f"--advertise {text}: expected HOST or HOST:PORT")
    if refusal := Host(reachable=True).refusal(host):
        parser.error(f"--advertise {text}: {refusal}")
    return host, int(port) if port else None


def _tables(parser: argparse.ArgumentParser, text: str | None) -> str | None:
    if text is None:
        return None
    from tailrace.tables.location import parse_location

    try:
        return parse_location(text)
    except ValueError as wrong:
        parser.error(f"--tables {wrong}")


def _listen(parser: argparse.ArgumentParser, text: str) -> tuple[str, ...]:
    from tailrace.config.hosts import HostList

    hosts = tuple(dict.fromkeys(host.strip().strip("[]") for host in text.split(",")))
    if refusal := HostList().refusal(hosts):
        parser.error(f"--listen {text!r}: {refusal}")
    return hosts


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to {_PORT_MAX})")
    return int(text)


def _instances(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _INSTANCES_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_INSTANCES_MAX}")
    return int(text)

"""`tailrace table run`: topics whose config tailrace.table is delta, as tables of Delta Lake."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

import typer
from structlog.typing import FilteringBoundLogger

from tailrace.cli.daily.connection import Bootstrap, address, command_settings, counted, given, say
from tailrace.cli.daily.output import done
from tailrace.cli.preload import kafka_without_clients
from tailrace.net.address import Address
from tailrace.runtime import logs
from tailrace.runtime.process import run_loop
from tailrace.tables import extra
from tailrace.tables.app import TableOptions, fill_tables, serve_tables
from tailrace.tables.location import REGISTRY_USER_VARIABLE, REGISTRY_VARIABLE, parse_location, parse_registry
from tailrace.tables.service import FAILURES

app = typer.Typer(
    help="Topics as tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
TARGET_VARIABLE = "TAILRACE_TABLES"
_NONE = "no topic has the config tailrace.table=delta"


@app.callback()
def table() -> None:
    """Topics as tables."""


@app.command()
def run(
    target: Annotated[
        str,
        typer.Option(
            "--target",
            metavar="DIR|URL",
            envvar=TARGET_VARIABLE,
            help="folder, or s3://BUCKET/PREFIX with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
    ],
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="may be repeated; default: all that ask for it"),
    ] = None,
    registry: Annotated[
        str,
        typer.Option(
            "--schema-registry",
            metavar="URL",
            envvar=REGISTRY_VARIABLE,
            help=f"of the schemas of Avro values; its user is NAME:PASSWORD in {REGISTRY_USER_VARIABLE}",
        ),
    ] = "",
    once: Annotated[bool, typer.Option("--once", help="stop at the ends of the topics as they are now")] = False,
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="HOST:PORT", help="address of health and metrics; port 0 picks one")
    ] = "127.0.0.1:0",
    bootstrap: Bootstrap = None,
) -> None:
    """Write the records of each topic whose config tailrace.table is delta to its table, until Ctrl-C or --once."""
    options = _options(target, topics or [], metrics, registry, address(bootstrap))
    if not extra.is_installed():
        say(f"tables need pyarrow, deltalake and fastavro: {extra.INSTALL}", err=True)
        raise typer.Exit(1)
    logs.configure(logs.default_format())
    log = logs.logger("table", 0, named=False)
    with kafka_without_clients():
        if not once:
            run_loop(lambda stop: serve_tables(options, log, _Log(log), stop))
            return
        try:
            names = asyncio.run(fill_tables(options, log))
        except FAILURES as error:
            say(f"{type(error).__name__}: {error}", err=True)
            raise typer.Exit(1) from None
    sentence = f"{counted(len(names), 'table')} below {options.location}: {', '.join(names)}"
    done(sentence if names else _NONE, topic_names=list(names))


def _options(target: str, topics: list[str], metrics: str, registry: str, bootstrap: str) -> TableOptions:
    try:
        return TableOptions(
            [Address.parse(text.strip()) for text in bootstrap.split(",")],
            parse_location(target),
            frozenset(filter(given, topics)),
            command_settings(),
            Address.parse(metrics),
            parse_registry(registry, os.environ.get(REGISTRY_USER_VARIABLE, "")),
        )
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None


class _Log:
    """Reports to the log where the worker answers."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log

    def opened(self, addresses: dict[str, str]) -> None:
        self._log.info("ready", **addresses)

    def ready(self) -> None: ...

    def ask_for(self, process: str) -> None: ...

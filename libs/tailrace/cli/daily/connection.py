"""Where the daily commands connect, and how they say that something was refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from tailrace.cli.options import default_data_dir
from tailrace.runtime.run_files import RunFile

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
PATIENCE_MS = 10_000  # for a first answer: a cluster that is just starting is there by then
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="TAILRACE_BOOTSTRAP",
        help=f"host:port; default: the cluster that runs in the default directory, else {DEFAULT_BOOTSTRAP}",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="for programs")]


def address(bootstrap: str | None) -> str:
    """What was asked for, else the local cluster's own word, else Kafka's port."""
    if bootstrap:
        return bootstrap
    running = RunFile.read(default_data_dir(os.environ) / "run" / "up.json")
    return running.addresses["bootstrap"] if running and running.is_running() else DEFAULT_BOOTSTRAP


@contextmanager
def client(kind: str, bootstrap: str | None, /, **options: Any) -> Iterator[Any]:
    """A kafka-python client by class name; refusals end the command with one sentence and status 1."""
    import kafka
    from kafka.errors import KafkaError, KafkaTimeoutError

    where = address(bootstrap)
    known = {"bootstrap_servers": where, "client_id": f"tailrace-cli-{os.getpid()}"}
    try:
        try:
            opened = getattr(kafka, kind)(**known, bootstrap_timeout_ms=PATIENCE_MS, **options)
        except KafkaTimeoutError:
            raise KafkaError(
                f"nobody answers there within {PATIENCE_MS // 1000} s; --bootstrap names another"
            ) from None
        try:
            yield opened
        finally:
            opened.close()
    except KafkaError as error:
        typer.echo(f"{where}: {error}", err=True)
        raise typer.Exit(1) from None


def pairs(items: list[str] | None) -> dict[str, str]:
    """`key=value` options as a mapping."""
    found = {}
    for item in items or ():
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{item}: expected key=value")
        found[key.strip()] = value
    return found


def table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    """Aligned columns; plain text, so that it can be piped."""
    texts = [head, *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(head))]
    for row in texts:
        typer.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())

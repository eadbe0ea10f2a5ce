"""Where the daily commands connect, and what several of them take and print."""

from __future__ import annotations

import os
import socket
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tailrace.frames.where import BOOTSTRAP, COMMAND_CONFIG, DEFAULT_BOOTSTRAP, running_bootstrap, settings_of_file
from tailrace.net.address import Address
from tailrace.printable import printable, printable_lines
from tailrace.records.timestamps import has_date
from tailrace.runtime.run_files import default_data_dir

if TYPE_CHECKING:
    from tailrace.net.client import ClientSettings


def given(name: str | None) -> str | None:
    """A usage error for an empty name, which shells make of variables that are not set."""
    if name == "":
        raise typer.BadParameter("it is empty")
    return name


_LISTENS_S = 1.0
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar=BOOTSTRAP,
        help=f"host:port; default: the cluster that runs in the default directory, else {DEFAULT_BOOTSTRAP}",
    ),
]
Topic = Annotated[str, typer.Argument(help="topic name", callback=given)]
SomeTopics = Annotated[list[str] | None, typer.Option("--topic", "-t", help="may be repeated; default: all")]
OnePartition = Annotated[int | None, typer.Option("--partition", "-p", help="one partition of one --topic")]


def one_topic(topics: list[str] | None, partition: int | None) -> None:
    """Refuses a partition of no topic, or of several."""
    if partition is not None and len(topics or ()) != 1:
        raise typer.BadParameter("--partition needs exactly one --topic")


class ClusterAddress(NamedTuple):
    """Where a command finds its cluster; data_dir: of this machine's processes, where it is their cluster."""

    bootstrap: str
    data_dir: Path | None = None


def cluster_address(bootstrap: str | None, data_dir: Path | None = None) -> ClusterAddress:
    """The one rule of all commands: a directory that is named, an address that is named, the default directory's
    cluster while it runs, Kafka's port.
    """
    if data_dir is not None:
        return ClusterAddress(running_bootstrap(data_dir) or DEFAULT_BOOTSTRAP, data_dir)
    local_dir = default_data_dir(os.environ)
    local = running_bootstrap(local_dir)
    if bootstrap and bootstrap != local:
        return ClusterAddress(bootstrap)
    return ClusterAddress(local or DEFAULT_BOOTSTRAP, local_dir)


def address(bootstrap: str | None) -> str:
    """The bootstrap address of a command that takes no directory."""
    return cluster_address(bootstrap).bootstrap


def command_settings() -> ClientSettings:
    """A usage error where the file of client settings, or what it says, cannot be used."""
    file = os.environ.get(COMMAND_CONFIG)
    if not file:
        return settings_of_file(None)
    from tailrace.config import ConfigError

    try:
        return settings_of_file(file)
    except OSError as error:
        raise typer.BadParameter(f"--command-config {file} cannot be read: {error.strerror}") from None
    except (ConfigError, ValueError) as wrong:
        raise typer.BadParameter(f"--command-config {file}: {wrong}") from None


def listens(bootstrap: str) -> bool:
    """Whether something takes connections at the first address of a list."""
    at = Address.parse(bootstrap.split(",", maxsplit=1)[0].strip())
    try:
        with socket.create_connection((at.host, at.port), _LISTENS_S):
            return True
    except OSError:
        return False


def runs_here(bootstrap: str) -> bool:
    """Whether this is where the cluster of the default directory answers, or will do so once it has started."""
    return bootstrap == running_bootstrap(default_data_dir(os.environ))


def pairs(items: list[str] | None) -> dict[str, str]:
    """`key=value` options as a mapping."""
    found = {}
    for item in items or ():
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{item}: expected key=value")
        found[key.strip()] = value
    return found


def local_time(time_ms: int) -> str:
    """A time in this machine's zone, with its offset; the bare number where no calendar has it."""
    if not has_date(time_ms):
        return str(time_ms)
    return datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(" ", "milliseconds")


def counted(count: int, what: str) -> str:
    """1 topic, 2 topics."""
    return f"{count} {what}{'s' * (count != 1)}"


def table(head: tuple[str, ...], rows: list[tuple[object, ...]], most_chars: int | None = 255) -> None:
    """Aligned columns; plain text, so that it can be piped. A cell that is longer, as a client's 32 KB id, is cut."""
    texts = [head, *(tuple(_cell(cell, most_chars) for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(head))]
    for row in texts:
        say("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _cell(value: object, most_chars: int | None) -> str:
    text = str(value)
    return printable(text if most_chars is None or len(text) <= most_chars else text[:most_chars] + "…")


def say(text: str = "", *, err: bool = False) -> None:
    """Prints lines for people, in which control characters of what a client or a cluster says are escapes."""
    typer.echo(printable_lines(text), err=err)

"""`tailrace cert create|renew|list`: the certificates of a data directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tailrace.cli.daily.connection import local_time, say
from tailrace.cli.daily.output import done, show
from tailrace.cli.secure import check_library
from tailrace.config import ConfigError
from tailrace.config.hosts import is_host
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.run_files import default_data_dir

if TYPE_CHECKING:
    from tailrace.cli.secure.authority import Facts

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def _hosts(names: list[str] | None) -> list[str]:
    wrong = [name for name in names or () if not is_host(name)]
    if wrong:
        raise typer.BadParameter(f"{wrong[0]!r} is not a host name or an IP address")
    return names or []


Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="default: the directory of `tailrace up`")]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="HOST",
        help="another name or address that clients connect to; may be repeated",
        callback=_hosts,
    ),
]


_COLUMNS: Final = {
    "certificate": "certificate",
    "subject": "subject",
    "not_after_ms": "valid until",
    "state": "state",
    "names": "names",
}


@app.command()
def create(data: Data = None, name: Names = None) -> None:
    """Make the authority and the certificate of the cluster, as far as they are not there."""
    with _refusals():
        from tailrace.cli.secure import certificates

        files = certificates.files_of(_folder(data))
        made = certificates.ensure(files, certificates.names_for((), name or ()), SystemClock().wall_ms())
        done(
            f"{files.server} was {made}." if made else f"{files.server} is there, and not due.", path=str(files.server)
        )


@app.command()
def renew(data: Data = None, name: Names = None) -> None:
    """Make a new certificate of the cluster now; a cluster that runs takes it up by itself."""
    with _refusals():
        from tailrace.cli.secure import certificates

        files = certificates.files_of(_folder(data))
        certificates.renew(files, certificates.names_for((), name or ()), SystemClock().wall_ms())
        facts = certificates.server_facts(files)
        done(
            f"{files.server} was renewed, and is valid until {local_time(facts.not_after_ms)}.",
            path=str(files.server),
            not_after_ms=facts.not_after_ms,
        )


@app.command("list")
def list_(data: Data = None) -> None:
    """Show the certificates with their names and ends."""
    with _refusals():
        from tailrace.cli.secure import certificates

        files = certificates.files_of(_folder(data))
        found = [("authority", certificates.authority_facts(files)), ("server", certificates.server_facts(files))]
        now_ms = SystemClock().wall_ms()
        rows = [{"certificate": kind, **facts._asdict(), "state": _state(facts, now_ms)} for kind, facts in found]
        show(rows, _COLUMNS, cells={"not_after_ms": local_time}, most_chars=None)


def _state(facts: Facts, now_ms: int) -> str:
    if facts.not_after_ms <= now_ms:
        return "expired"
    return "due" if facts.is_due(now_ms) else "valid"


def _folder(data: Path | None) -> Path:
    return (data or default_data_dir(os.environ)).expanduser().absolute()


@contextmanager
def _refusals() -> Iterator[None]:
    """One sentence and exit status 1 for what cannot be done."""
    try:
        check_library()
        yield
    except ConfigError as wrong:
        say(str(wrong), err=True)
        raise typer.Exit(1) from None
    except OSError as error:
        say(f"{error.filename}: {error.strerror}.", err=True)
        raise typer.Exit(1) from None

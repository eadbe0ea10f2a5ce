"""`tailrace status`: what runs on this machine, from the run files."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.daily.connection import table
from tailrace.cli.options import default_data_dir
from tailrace.runtime.run_files import RunFile

NOT_RUNNING = 3


def status(data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="of `up`")] = None) -> None:
    """Show the processes of a cluster; status 0 if all are ready, 1 if not, 3 if none runs."""
    data_dir = data or default_data_dir(os.environ)
    files = [RunFile.read(path) for path in sorted((data_dir / "run").glob("*.json"))]
    running = [file for file in files if file and file.is_running()]
    if not running:
        typer.echo(f"Nothing runs on {data_dir}.")
        raise typer.Exit(NOT_RUNNING)
    table(
        ("process", "pid", "ready", "since", "addresses"),
        [
            (
                file.name,
                file.pid,
                "yes" if file.ready else "no",
                f"{datetime.fromtimestamp(file.since_ms // 1000):%Y-%m-%d %H:%M:%S}",
                ", ".join(f"{name} {address}" for name, address in file.addresses.items()),
            )
            for file in running
        ],
    )
    if not all(file.ready for file in running):
        raise typer.Exit(1)

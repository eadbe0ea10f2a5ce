"""`tailrace verify-log DIR...`: reads everything, changes nothing, says what is wrong and what to do."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Column

from tailrace.cli.command import INTERRUPTED
from tailrace.cli.daily.connection import counted, say
from tailrace.cli.daily.output import is_json, row
from tailrace.cli.files.policies import compacted_topics
from tailrace.inspect import files
from tailrace.inspect.in_use import in_use
from tailrace.inspect.verify import size_bytes, verify

FOUND, REFUSED = 1, 2


def progress(text: str) -> Progress:
    """A bar of bytes on standard error, one line however narrow; nothing where that is no terminal, or a dumb one."""
    console = Console(stderr=True)
    columns = (
        TextColumn(text),
        BarColumn(),
        DownloadColumn(binary_units=True, table_column=Column(no_wrap=True)),
        TransferSpeedColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
    )
    return Progress(*columns, console=console, disable=not console.is_interactive, transient=True)


def verify_log(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="data, log or partition directories"),
    ],
) -> None:
    """Check every segment, index, snapshot and checkpoint, Tailrace's or Apache Kafka's; status 1 if one is wrong.

    Nothing is changed. A directory that a broker has open is refused: what it is writing looks wrong from outside.
    """
    directories = [path if path.name else path.absolute() for path in directories]  # a partition's name says what it is
    for directory in directories:
        if why := _unfit(directory):
            say(why, err=True)
            raise typer.Exit(REFUSED)
    _refuse_in_use(directories, "Stop the broker first, or name directories of brokers that do not run")
    total = size_bytes(directories)
    try:
        with progress("Reading") as bar:
            count = _report_findings(directories, bar, bar.add_task("", total=total))
    except KeyboardInterrupt:
        say("Interrupted: not all of it was read.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    _refuse_in_use(directories, "A broker has started meanwhile: what was found may be what it was writing")
    if not is_json():
        found = "nothing is wrong" if not count else counted(count, "finding")
        say(f"{total} bytes of segments read: {found}.", err=True)
    if count:
        raise typer.Exit(FOUND)


def _refuse_in_use(directories: list[Path], advice: str) -> None:
    if found := list(in_use(directories)):
        say(f"{', '.join(map(str, found))}. {advice}.", err=True)
        raise typer.Exit(REFUSED)


def _unfit(directory: Path) -> str | None:
    """Why there is nothing to verify, in a sentence."""
    try:
        if not directory.is_dir():
            return f"{directory} is no directory."
        if not files.holds_logs(directory):
            return f"{directory} is no log directory: no meta.properties, no checkpoint and no partition is there."
    except OSError as error:
        return f"{error.filename or directory} cannot be read: {error.strerror}."
    return None


def _report_findings(directories: list[Path], bar: Progress, task: TaskID) -> int:
    """Tells the findings as they come, above the bar where both are on the terminal; how many there are."""
    count = 0
    beside_bar = not bar.disable and sys.stdout.isatty()
    for directory in directories:
        for finding in verify(directory, partial(bar.advance, task), compacted_topics):
            count += 1
            if beside_bar:
                bar.stop()
            row({"path": str(finding.path), "what": finding.what, "advice": finding.advice}, str(finding))
            if beside_bar:
                bar.start()
    return count

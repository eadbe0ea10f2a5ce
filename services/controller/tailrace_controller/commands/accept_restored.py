"""`tailrace controller accept-restored`: an operator gives up what a restored metadata database lacks.

The controllers refuse to decide on such a database (acceptance.py) and say the line to run. Naming the offset makes
sure that the person knows how much is given up, and that the line does not accept a later, worse one.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.runtime.clock import SystemClock
from tailrace.runtime.process import REFUSED, load_config
from tailrace_controller.metadata_log.stored import OutcomeUnknown, ReplayPosition, StoreError

if TYPE_CHECKING:
    from tailrace.config import Config


def database_url(config: "Config", data_dir: Path) -> str:
    """Where the metadata log is: metadata.url, or SQLite in the data directory."""
    return config.metadata_url or f"sqlite:///{data_dir / 'metadata.db'}"


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status."""
    options = _parser().parse_args(arguments)
    config = load_config("controller", options.config, options.set)
    data_dir = Path(options.data or config.data_dir).absolute()
    try:
        return accept(database_url(config, data_dir), options.seen_offset)
    except (OutcomeUnknown, StoreError) as failure:
        sys.stderr.write(f"tailrace: the metadata database cannot be used: {failure}\n")
        return REFUSED


def accept(url: str, seen_offset: int) -> int:
    """Marks the lease row; the controller that holds it goes on from there."""
    from tailrace_controller.store import Store, sqlite_path

    path = sqlite_path(url)
    if path is not None and not path.exists():
        sys.stderr.write(f"tailrace: there is no metadata database at {path}\n")
        return REFUSED
    store = Store(url, SystemClock().monotonic_ms, _say)
    try:
        lease = store.follow(ReplayPosition(1, -1)).lease
        if lease.seen_offset < lease.next_offset:
            sys.stderr.write("tailrace: nothing was seen beyond this database; there is nothing to accept\n")
            return REFUSED
        if not store.give_up(seen_offset):
            sys.stderr.write(
                f"tailrace: offset {lease.seen_offset} was seen, not {seen_offset}; the database ends at "
                f"{lease.next_offset - 1}\n"
            )
            return REFUSED
    finally:
        store.close()
    sys.stdout.write(f"Accepted: metadata from offset {lease.next_offset} to {seen_offset} is given up.\n")
    return 0


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tailrace controller accept-restored",
        description="Gives up the metadata that a restored database lacks. What was created since the backup is gone, "
        "topics with their data; epochs and producer ids go on far beyond what may have been given out.",
    )
    parser.add_argument("--seen-offset", type=int, required=True, metavar="N", help="as the controllers' refusal says")
    parser.add_argument("--data", metavar="DIR", help="the data directory, for SQLite")
    parser.add_argument("--config", metavar="FILE", help="the controllers' .properties file")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="as for the controllers")
    return parser

"""`tailrace controller write-image`: the metadata of a stopped cluster as a snapshot file, as `export-kafka` needs it.

The file is named as Kafka names its own, by end offset and epoch, and holds record batches (net.metadata.batches).
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tailrace.net.metadata.batches import encode_snapshot
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.process import REFUSED, load_config
from tailrace_controller.commands.accept_restored import database_url
from tailrace_controller.metadata_log import bootstrap
from tailrace_controller.metadata_log.stored import OutcomeUnknown, ReplayPosition, StoreError


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status."""
    options = _parser().parse_args(arguments)
    config = load_config("controller", options.config, options.set)
    url = database_url(config, Path(options.data or config.data_dir).absolute())
    from tailrace_controller.store import Store, sqlite_path

    path = sqlite_path(url)
    if path is not None and not path.exists():
        sys.stderr.write(f"tailrace: there is no metadata database at {path}\n")
        return REFUSED
    clock = SystemClock()
    store = Store(url, clock.monotonic_ms, lambda sentence: None)
    try:
        image, _ = bootstrap.replay(store.follow(ReplayPosition()))
        snapshot = encode_snapshot(image, clock.wall_ms())
        name = f"{snapshot.end_offset:020d}-{max(snapshot.epoch, 0):010d}.checkpoint"
        (Path(options.to) / name).write_bytes(snapshot.data)
    except (OutcomeUnknown, StoreError, OSError) as failure:
        sys.stderr.write(f"tailrace: the metadata cannot be written: {failure}\n")
        return REFUSED
    finally:
        store.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tailrace controller write-image",
        description="Writes the cluster's metadata as a snapshot file; `tailrace export-kafka` calls it.",
    )
    parser.add_argument("--to", required=True, metavar="DIR", help="the directory to write it in")
    parser.add_argument("--data", metavar="DIR", help="the data directory, for SQLite")
    parser.add_argument("--config", metavar="FILE", help="the controllers' .properties file")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="as for the controllers")
    return parser

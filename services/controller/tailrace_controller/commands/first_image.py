"""`tailrace controller begin-with`: gives an empty metadata database its first image, as `import-kafka` does.

The image comes as a snapshot file (net.metadata.batches). Offsets and epochs go on where its cluster's left off, so
that broker epochs, leader epochs and producer ids are never given out twice. Features become this release's own.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tailrace.errors import ApiError
from tailrace.kafka.features import INITIAL, TRANSACTION_VERSION
from tailrace.metadata.codec import MalformedRecord
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.snapshot import to_records
from tailrace.net.metadata.batches import Snapshot, decode_snapshot, encode_snapshot
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.process import REFUSED, load_config
from tailrace_controller.commands.accept_restored import database_url
from tailrace_controller.metadata_log import projection
from tailrace_controller.metadata_log.stored import OutcomeUnknown, ReplayPosition, StoredSnapshot, StoreError


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status."""
    options = _parser().parse_args(arguments)
    config = load_config("controller", options.config, options.set)
    url = database_url(config, Path(options.data or config.data_dir).absolute())
    try:
        content = Path(options.snapshot).read_bytes()
        image = decode_snapshot(Snapshot(options.end_offset, options.epoch, content))
        from tailrace_controller.store import Store

        clock = SystemClock()
        store = Store(url, clock.monotonic_ms, lambda sentence: None)
        try:
            lease = store.follow(ReplayPosition()).lease
            if lease.next_offset:
                sys.stderr.write(
                    f"tailrace: the metadata database holds a cluster already, up to {lease.next_offset}\n"
                )
                return REFUSED
            after = with_our_features(image)
            snapshot = encode_snapshot(after, clock.wall_ms())
            stored = StoredSnapshot(snapshot.end_offset, snapshot.epoch, snapshot.data)
            changes = projection.changes(to_records(after), MetadataImage(), after, config)
            store.restart(lease, stored, clock.wall_ms(), changes)
        finally:
            store.close()
    except (ApiError, MalformedRecord, OSError) as error:
        sys.stderr.write(f"tailrace: {options.snapshot} is no snapshot: {error}\n")
        return REFUSED
    except (OutcomeUnknown, StoreError) as failure:
        sys.stderr.write(f"tailrace: the metadata database cannot be used: {failure}\n")
        return REFUSED
    return 0


def with_our_features(image: MetadataImage) -> MetadataImage:
    """The image at the feature levels that an empty log begins with, but with the transactions that it had."""
    levels = dict(INITIAL)
    levels[TRANSACTION_VERSION] = min(image.features.get(TRANSACTION_VERSION, 0), levels[TRANSACTION_VERSION])
    return replace(image, features={name: level for name, level in levels.items() if level})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tailrace controller begin-with",
        description="Gives an empty metadata database the image of another cluster; `tailrace import-kafka` calls it.",
    )
    parser.add_argument("--snapshot", required=True, metavar="FILE", help="the image as record batches")
    parser.add_argument("--end-offset", type=int, required=True, metavar="N", help="the first offset after it")
    parser.add_argument("--epoch", type=int, required=True, metavar="N", help="the controller epoch that it is of")
    parser.add_argument("--data", metavar="DIR", help="the data directory, for SQLite")
    parser.add_argument("--config", metavar="FILE", help="the controllers' .properties file")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="as for the controllers")
    return parser

"""What another thread does for a segment whose indexes or damage a read could not wait for."""

from __future__ import annotations

from tailrace.log.segment.search import indexes_of
from tailrace.log.segment.view import BackgroundScan


def run(scan: BackgroundScan) -> None:
    """In a thread; raises what reading raises, ReadStopped if it was stopped."""
    segment = scan.view.snapshot
    try:
        indexes_of(segment, scan.mode)  # also finds out what is wrong, if that is where it shows
        if scan.examine is not None and not segment.examined:
            scan.examine(segment, scan.mode)
        scan.done = True
    finally:
        scan.failed = not scan.done

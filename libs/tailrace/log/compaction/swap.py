"""Putting a cleaned segment in its sources' place, by names alone, so that a crash in between does no harm.

From the rename of the .log to .swap on, recovery goes forward (recovery.finish_swaps), before it back. A journal
brings changes of names to the disk in their order, so nothing here waits for the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tailrace.log.filesystem.names import CLEANED_SUFFIX, SWAP_SUFFIX
from tailrace.log.segment.index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from tailrace.log.segment.segment import LOG_SUFFIX, Segment
from tailrace.log.segment.transaction_index import TRANSACTION_INDEX_SUFFIX, TRANSACTION_SUMS_SUFFIX

# The .log goes last: with it the others are there already.
_ORDER: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, TRANSACTION_SUMS_SUFFIX, LOG_SUFFIX)
_OPTIONAL: Final = (TRANSACTION_INDEX_SUFFIX, TRANSACTION_SUMS_SUFFIX)  # most segments have none


def swap_in(output: Segment, sources: Iterable[Segment], retire: Callable[[Segment], None]) -> None:
    """Puts the copy in its sources' place; retire takes a source's names away."""
    for suffix in _ORDER:
        path = output.path(suffix)
        _rename(output, path, path.removesuffix(CLEANED_SUFFIX) + SWAP_SUFFIX)
    # Oldest first: a tombstone must not go before the values that it hides.
    for source in sources:
        retire(source)
    output.name_suffix = ""
    for suffix in _ORDER:
        _rename(output, output.path(suffix) + SWAP_SUFFIX, output.path(suffix))


def _rename(output: Segment, old: str, new: str) -> None:
    try:
        output.filesystem.rename(old, new)
    except FileNotFoundError:
        if not any(suffix in old for suffix in _OPTIONAL):
            raise


def discard(output: Segment) -> None:
    """Removes a copy that is not wanted any more."""
    for suffix in _ORDER:
        try:
            output.filesystem.remove(output.path(suffix))
        except FileNotFoundError:
            continue

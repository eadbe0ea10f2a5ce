"""Which transactions of one log are undecided, and so how far a reader at read_committed may go (KIP-98). Pure.

A transaction begins with its producer's first batch and ends with a marker. Until the marker is below the high
watermark, too, it holds the last stable offset down to its first record: a new leader might not have the marker.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

NEVER: Final = 2**63 - 1  # no offset is above it


class OpenTransactions:
    """Offsets of transactions; `first_unstable_offset` is the lowest that is not decided for good, else NEVER."""

    __slots__ = ("_ended", "_ongoing", "first_unstable_offset")

    def __init__(self) -> None:
        self.first_unstable_offset = NEVER
        self._ongoing: dict[int, int] = {}  # first offset -> producer id; offsets grow
        self._ended: list[tuple[int, int]] = []  # a heap of (first offset, the marker's offset)

    def __len__(self) -> int:
        return len(self._ongoing)

    def producers(self) -> list[int]:
        """The producer ids of the transactions that are open, the oldest transaction first."""
        return list(self._ongoing.values())

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Takes up a transaction's batch; nothing happens if it is not the first."""
        if first_offset not in self._ongoing:
            self._ongoing[first_offset] = producer_id
            self._settle()

    def end(self, first_offset: int, marker_offset: int) -> int:
        """The transaction's marker is at marker_offset; the last stable offset after it, high watermark aside."""
        self._ongoing.pop(first_offset, None)
        heappush(self._ended, (first_offset, marker_offset))
        self._settle()
        return next(iter(self._ongoing), marker_offset + 1)

    def replicated(self, high_watermark: int) -> None:
        """Forgets the ended transactions that hold nothing down any more."""
        if self._ended and self._ended[0][1] < high_watermark:
            while self._ended and self._ended[0][1] < high_watermark:
                heappop(self._ended)
            self._settle()

    def _settle(self) -> None:
        ended = self._ended[0][0] if self._ended else NEVER
        self.first_unstable_offset = min(ended, next(iter(self._ongoing), NEVER))

"""The leader epochs of a log and where each began (KIP-101, KIP-279): what a follower truncates by. Pure."""

from __future__ import annotations

from bisect import bisect_right

NO_EPOCH = -1
NO_OFFSET = -1


class LeaderEpochs:
    """(epoch, start offset) in growing order of both."""

    __slots__ = ("_epochs", "_starts", "latest")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._epochs = [epoch for epoch, _ in entries or ()]
        self._starts = [start for _, start in entries or ()]
        self.latest = NO_EPOCH  # the last epoch that has records; an attribute, for the append path
        self._note_latest()

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Notes that epoch's first record is at start_offset; False if that was known."""
        if epoch <= self.latest or epoch < 0:
            return False
        self.truncate_from_end(start_offset)
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(the largest epoch not above the asked one, the offset where it ended); (-1, -1) if that is unknown here."""
        if epoch == NO_EPOCH or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        following = bisect_right(self._epochs, epoch)
        floor = self._epochs[following - 1] if following else epoch
        return floor, self._starts[following]

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote offset, -1 if unknown."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forgets epochs that began at or after end_offset; whether there were any."""
        before = len(self._epochs)
        while self._starts and self._starts[-1] >= end_offset:
            self._starts.pop()
            self._epochs.pop()
        self._note_latest()
        return len(self._epochs) != before

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forgets epochs that ended before start_offset and lets the one that holds it begin there; whether it did."""
        index = bisect_right(self._starts, start_offset) - 1
        if index < 0 or (index == 0 and self._starts[0] == start_offset):
            return False
        del self._starts[:index], self._epochs[:index]
        self._starts[0] = start_offset
        return True

    def _note_latest(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH

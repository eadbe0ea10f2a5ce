"""Who reads cold data, and how its answers are sent.

Whoever reads on where the disk had to be waited for gets everything there by the same way, also what the kernel has
read ahead meanwhile: its next reading ahead is the work of whoever touches what the last one brought, much of it where
read_ahead_kb is large, and the event loop has no time for that. What is asked for at once grows with what was read in
one go, as the kernel's own reading ahead does.
"""

from __future__ import annotations

from typing import Any, Final

from tailrace.log.reading import Carrier, Slice

# Below it a copy is cheaper than the calls (dataplane.md).
_SENDFILE_BYTES: Final = 65_536
# A mebibyte is 300 us of the event loop, which tailing clients wait for; each slice is a turn more of it for them.
_SLICE_BYTES: Final = 131_072
_FIRST_AHEAD_BYTES: Final = 1_048_576
_MOST_AHEAD_BYTES: Final = 8_388_608  # of all files of a connection together
# Beyond what the kernel may have read ahead: what lies there tells whether the data is still cold.
_FAR_BYTES: Final = 16_777_216
_MOST_FILES: Final = 64  # of one connection; the one that began first is forgotten
_COLD: Final = "cold reader"


class ColdReader:
    """A connection that reads cold data: up to where that was brought into the page cache for it, for each file.

    Files are known by their identity alone, so that one that was deleted is not kept; a mistaken one costs a wait.
    """

    __slots__ = ("_runs", "carrier")

    def __init__(self, carrier: Carrier | None = None) -> None:
        self.carrier = carrier
        self._runs: dict[int, tuple[int, int]] = {}  # (up to where, how much was asked for beyond the answer)

    def reads(self, piece: Slice) -> bool:
        """Whether the file is one that it reads cold data of."""
        return id(piece.file) in self._runs

    def must_wait(self, piece: Slice) -> bool:
        """Whether it goes on in such a file, beyond what was brought, or its next answer of that size would.

        The last batch's end is found by a look behind it, which is to be there by then, too.
        """
        run = self._runs.get(id(piece.file))
        return run is not None and piece.position + 2 * piece.length > run[0] >= piece.position - _MOST_AHEAD_BYTES

    def wants(self, piece: Slice) -> Slice:
        """What is to be brought for this piece: more than it, if it goes on. Forgets a file that is cold no more."""
        to, ahead = self._runs.pop(id(piece.file), (-1, 0))
        try:
            end, size = piece.position + piece.length, piece.file.stat().size_bytes
            if piece.file.resident(max(0, min(end + _FAR_BYTES, size) - 1)):
                return piece
        except OSError:
            return piece  # who brings it hears of it
        goes_on = piece.position <= to <= end + piece.length
        ahead = min(max(_FIRST_AHEAD_BYTES, 2 * ahead), _MOST_AHEAD_BYTES // (1 + len(self._runs))) if goes_on else 0
        end = max(end, min(end + ahead, size))
        self._runs[id(piece.file)] = end, ahead
        if len(self._runs) > _MOST_FILES:
            del self._runs[next(iter(self._runs))]
        return Slice(piece.file, piece.position, end - piece.position)


def cold_reader(state: dict[str, Any], carrier: Carrier | None = None) -> ColdReader:
    """Of a connection, known by its state, that has to wait for the disk."""
    reader = state.get(_COLD)
    if reader is None:
        reader = state[_COLD] = ColdReader(carrier)
    return reader


def loaded(piece: Slice, sends_files: bool, state: dict[str, Any], *, wait: bool = False) -> Any:
    """The records as they will be sent; to who reads cold data by somebody else, or else in slices.

    None where the disk would have to be waited for and `wait` is not set.
    """
    reader: ColdReader | None = state.get(_COLD)
    if reader is not None and not wait and reader.must_wait(piece):
        return None
    if not sends_files or piece.length < _SENDFILE_BYTES:
        return piece.read() if wait else piece.read_cached()
    if wait:
        piece.settle()
    elif not piece.cached():
        return None
    if reader is not None and reader.reads(piece):
        piece.turn_bytes, piece.carrier = _SLICE_BYTES, reader.carrier
    return piece

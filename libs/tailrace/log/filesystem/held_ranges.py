"""Parts of a file that lie in memory besides the page cache, for who reads too much for it."""

from __future__ import annotations

from typing import Protocol

from tailrace.records.batch import Bytes


class BorrowedBytes(Protocol):
    """Bytes of a file that stay where they are in memory as long as the loan is held."""

    def read(self, length: int, position: int) -> bytes:
        """A copy of some of them, by their place in the file."""
        ...

    def parts(self, length: int, position: int) -> list[tuple[int, int]]:
        """Where they lie in the memory that they are lent from: (place, length), one after the other."""
        ...

    def view(self, length: int, position: int) -> Bytes:
        """The first of these parts."""
        ...


class HeldRanges(Protocol):
    """What is held of one file, as it was when it was read. A file that is written to forgets it."""

    def read(self, length: int, position: int) -> bytes | None:
        """A copy, or None where not all of it is held."""
        ...

    def peek(self, length: int, position: int) -> memoryview | None:
        """So many of these bytes and perhaps more, uncopied: only to be looked at before anything else happens."""
        ...

    def awaits(self, length: int, position: int) -> bool:
        """Whether some of it is being read from the disk; nobody need look for it in the page cache."""
        ...

    def lend(self, length: int, position: int) -> BorrowedBytes | None:
        """For somebody who sends them; None where not all of it is held."""
        ...

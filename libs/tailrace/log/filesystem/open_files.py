"""How many segments may keep their file open: a broker of many partitions must stay below its descriptor limit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import get_ident
from typing import Final, Protocol
from weakref import ref

UNLIMITED: Final = 2**31


class FileHolder(Protocol):
    """A segment that opened its file and can open it again by its name."""

    def free(self) -> bool:
        """Forgets the file, which is closed with its last reader, so a slice keeps it; False where it owes a sync."""
        ...

    def sync_file(self) -> None:
        """Returns when what was written to the file is on the disk; may raise OSError. In any thread."""
        ...


class OpenFiles:
    """The holders in the order in which they opened; beyond `limit` the one that opened first must let go.

    Not the one used last: that would cost every read and append a note, and opening again costs a few microseconds.
    One that was written to and not synced stays: the kernel tells of a failed write-back who has the file open, and
    forgets it with a file that nobody has. Of those there may be half as many more, until they are synced.
    """

    def __init__(self, limit: int = UNLIMITED) -> None:
        self.limit = limit
        self.freed = 0  # how often the limit took a file from its holder
        self._holders: deque[ref[FileHolder]] = deque()
        self._unsynced: deque[ref[FileHolder]] = deque()
        self._on_full: Callable[[], object] | None = None
        self._thread = 0
        self._short = False  # somebody found no descriptor left, and none could be had for him yet

    def __len__(self) -> int:
        return len(self._holders) + len(self._unsynced)

    def relieved_by(self, on_full: Callable[[], object]) -> None:
        """Whoever opens too many has make_room and take_owed called, soon, in this thread, which is that of the logs.

        on_full is called in any thread. Without one who opens a file does all of it there and then.
        """
        self._on_full, self._thread = on_full, get_ident()

    def add(self, holder: FileHolder) -> None:
        """Notes that holder has just opened its file."""
        self._holders.append(ref(holder))
        if len(self._holders) <= self.limit:
            return
        if self._on_full is None or self._thread == get_ident():
            self.make_room(holder)
        if self._on_full is not None and (self.owed > 0 or self._thread != get_ident()):
            self._on_full()
        if self.owed > (0 if self._on_full is None else self.limit // 4):  # nobody else does it, or not in time
            owed = self.take_owed(1)
            sync_files(owed)
            if self._on_full is None or self._thread == get_ident():
                self.put_back(owed)
            else:  # the logs' own thread may be writing to them: it has them let go
                self._unsynced.extendleft(map(ref, owed))

    def make_room(self, newest: FileHolder | None = None) -> None:
        """Has those who opened first let go, but for the newest."""
        if self._unsynced:  # it may have been synced meanwhile
            self._ask(self._unsynced.popleft()())
        if self._short:
            self._halve()
        while len(self._holders) > self.limit:
            oldest = self._holders.popleft()()
            if oldest is not newest:
                self._ask(oldest)

    def shed(self) -> bool:
        """The process has no descriptor left, for sockets take the rest: half of those open let go. Whether any has.

        In another thread than that of the logs, which has it done soon: False.
        """
        if self._on_full is not None and self._thread != get_ident():
            self._short = True
            self._on_full()
            return False
        before = self.freed
        self._halve()
        if self._on_full is not None and self.owed > 0:
            self._on_full()
        elif self._short:
            owed = self.take_owed(1)
            sync_files(owed)
            self.put_back(owed)
        return self.freed > before

    def _halve(self) -> None:
        before = self.freed
        for _ in range((len(self._holders) + 1) // 2):
            self._ask(self._holders.popleft()())
        self._short = self.freed == before and bool(self._unsynced)

    def _ask(self, holder: FileHolder | None) -> None:
        if holder is None:
            return
        if holder.free():
            self.freed += 1
        else:
            self._unsynced.append(ref(holder))

    @property
    def owed(self) -> int:
        """How many must be synced, as there are too many open."""
        return len(self._unsynced) - (0 if self._on_full is None or self._short else self.limit // 2)

    def take_owed(self, most: int) -> list[FileHolder]:
        """Some of those: give them to sync_files, in a thread if you like, and then to put_back."""
        taken = [self._unsynced.popleft()() for _ in range(min(most, max(0, self.owed)))]
        return [holder for holder in taken if holder is not None]

    def put_back(self, holders: Iterable[FileHolder]) -> None:
        """They were synced: who was not written to meanwhile lets go."""
        self._short = False
        for holder in holders:
            if holder.free():
                self.freed += 1
            else:
                self._holders.append(ref(holder))


def sync_files(holders: Iterable[FileHolder]) -> None:
    """Syncs each; of what fails the holder and its disk's guard take note."""
    for holder in holders:
        with suppress(OSError):
            holder.sync_file()

"""`tailrace.read`: a bounded window of a topic, as records or as a table."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from weakref import WeakSet

from tailrace.frames.background import BackgroundLoop
from tailrace.frames.extra import check_installed
from tailrace.frames.period import When, timestamp_of
from tailrace.frames.where import BOOTSTRAP, COMMAND_CONFIG, DEFAULT_BOOTSTRAP, running_bootstrap, settings_of_file
from tailrace.net.address import Address
from tailrace.reading.reader import AskNode, TopicReader
from tailrace.reading.start import EARLIEST, LATEST_TIMESTAMP, Start
from tailrace.reading.window import Bounds, FoundRecord, WindowReader
from tailrace.records.record import Headers
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.run_files import default_data_dir
from tailrace.tables.cluster import BootstrapNodes

if TYPE_CHECKING:
    import duckdb
    import polars
    import pyarrow

LIMIT: Final = 1_000_000
"""Records of a window, unless another limit is given."""
_BYTES_MAX: Final = 2 << 30
_PAGE_RECORDS: Final = 10_000
_PAGE_BYTES: Final = 64 << 20
_CLIENT_ID: Final = "tailrace-read"
T = TypeVar("T")


class ConsumerRecord(NamedTuple):
    """One record; a null key or value is None."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def timestamp(self) -> datetime:
        """In UTC."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)


class TopicWindow(NamedTuple):
    """Which records of a topic: from a start to a timestamp, or to the ends as they are when it is read."""

    topic: str
    start: Start = EARLIEST
    until: int = LATEST_TIMESTAMP
    partitions: Sequence[int] | None = None
    limit: int = LIMIT
    committed: bool = False


class WindowPages:
    """A window's records, page by page; `complete`: none is left out because of the limit."""

    def __init__(self, window: TopicWindow, ask: AskNode, patience_ms: float) -> None:
        self._window = window
        self._ask = ask
        self._patience_ms = patience_ms
        self._left = window.limit
        self._left_bytes = _BYTES_MAX
        self._pages: WindowReader | None = None
        self._reader: TopicReader | None = None

    @property
    def complete(self) -> bool:
        """Whether the window was read to its end."""
        return self._reader is not None and self._reader.done

    @property
    def is_large(self) -> bool:
        """Whether it stops at 2 GiB."""
        return self._left_bytes <= 0

    async def read(self) -> list[FoundRecord]:
        """The next page; empty at the end. Raises ApiError, Disconnected, TimeoutError, or ValueError for the start."""
        if self._pages is None or self._reader is None:
            clock, window = SystemClock(), self._window
            self._reader = TopicReader(
                self._ask, clock, window.topic, patience_ms=self._patience_ms, committed=window.committed
            )
            found = await self._reader.find(window.start, until=window.until, partitions=window.partitions)
            self._pages = WindowReader(self._reader, found, clock, _here)
        if self._reader.done or self._left <= 0 or self._left_bytes <= 0:
            return []
        most = min(self._left, _PAGE_RECORDS)
        before = self._pages.scanned_bytes
        page = await self._pages.read(Bounds(most, _PAGE_BYTES, most, _PAGE_BYTES, self._patience_ms))
        self._left -= len(page)
        self._left_bytes -= self._pages.scanned_bytes - before
        if not page and not self._reader.done:
            raise TimeoutError(f"nothing of {self._window.topic} could be read for {self._patience_ms / 1000:g} s")
        return page

    async def close(self) -> None:
        """Gives up what is on its way."""
        if self._reader is not None:
            await self._reader.close()


async def _here(work: Callable[[], T], /) -> T:
    """In the loop itself, which has no other work."""
    return work()


_OPEN: Final[WeakSet[Generator[list[FoundRecord], None, None]]] = WeakSet()


@atexit.register
def _close_open() -> None:
    """While the loops' threads still run: after that a window would wait for one that never answers."""
    for pages in list(_OPEN):
        with suppress(ValueError):  # another thread stands in it
            pages.close()


class TopicRecords:
    """A window of a topic, which each use reads again: iterated, or as a table."""

    def __init__(self, window: TopicWindow, bootstrap: str, command_config: str | None, timeout_s: float) -> None:
        self._window = window
        self._bootstrap = [Address.parse(text.strip()) for text in bootstrap.split(",")]
        self._command_config = command_config
        self._timeout_s = timeout_s
        self.complete: bool | None = None
        """Whether the last use read the window to its end, or stopped at the limit."""

    def __iter__(self) -> Iterator[ConsumerRecord]:
        for page in self._pages():
            for partition, record in page:
                yield ConsumerRecord(self._window.topic, partition, *record)

    def _pages(self) -> Generator[list[FoundRecord], None, None]:
        pages = self._read()
        _OPEN.add(pages)
        return pages

    def _read(self) -> Generator[list[FoundRecord], None, None]:
        nodes = BootstrapNodes(self._bootstrap, settings_of_file(self._command_config), _CLIENT_ID)
        pages = WindowPages(self._window, nodes, self._timeout_s * 1000)
        with BackgroundLoop() as loop:
            try:
                while page := loop.run(pages.read()):
                    yield page
            finally:
                self.complete = pages.complete
                loop.run(pages.close())
                loop.run(nodes.close())

    def arrow(self, *, text: bool = True) -> pyarrow.Table:
        """A table of pyarrow: partition, offset, timestamp, key, value, headers.

        text: keys and values are strings. Raises ValueError for one that is not UTF-8; with False they are bytes.
        """
        check_installed("pyarrow")
        from tailrace.frames.columns import table_of

        with closing(self._pages()) as pages:
            return table_of(pages, text=text)

    def polars(self, *, text: bool = True) -> polars.DataFrame:
        """The same as a data frame of Polars."""
        check_installed("pyarrow", "polars")
        from tailrace.frames.columns import polars_of

        return polars_of(self.arrow(text=text))

    def duckdb(self, *, text: bool = True) -> duckdb.DuckDBPyRelation:
        """The same as a relation of DuckDB."""
        check_installed("pyarrow", "duckdb", "pytz")
        from tailrace.frames.columns import relation_of

        return relation_of(self.arrow(text=text))


def read(
    topic: str,
    *,
    since: When | None = None,
    until: When | None = None,
    last: int | None = None,
    partitions: Sequence[int] | None = None,
    limit: int = LIMIT,
    read_committed: bool = False,
    bootstrap: str | None = None,
    command_config: str | None = None,
    timeout_s: float = 30.0,
) -> TopicRecords:
    """The records of a topic from `since` (a duration as 1h, or a time), or the `last` so many of each partition.

    Without both from the beginning. The end is that of the topic when it is read, or `until`. At most `limit` records.
    bootstrap: else TAILRACE_BOOTSTRAP, the cluster of the default directory, or 127.0.0.1:9092.
    command_config: a file with Kafka's client settings; else TAILRACE_COMMAND_CONFIG.
    timeout_s: for how long a partition may not be readable.
    """
    if since is not None and last is not None:
        raise ValueError("since or last")
    if limit < 1 or (last is not None and last < 0):
        raise ValueError("limit and last count records")
    now_ms = SystemClock().wall_ms()
    start = EARLIEST
    if since is not None:
        start = Start(timestamp=timestamp_of(since, now_ms))
    elif last is not None:
        start = Start(back=last)
    end = LATEST_TIMESTAMP if until is None else timestamp_of(until, now_ms)
    found = bootstrap or os.environ.get(BOOTSTRAP) or running_bootstrap(default_data_dir(os.environ))
    window = TopicWindow(topic, start, end, partitions, limit, read_committed)
    return TopicRecords(window, found or DEFAULT_BOOTSTRAP, command_config or os.environ.get(COMMAND_CONFIG), timeout_s)

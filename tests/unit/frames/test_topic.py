"""A window of a topic, page by page, and `tailrace.read` as a program uses it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tailrace
from support.reading import Cluster
from tailrace.cli.daily import app
from tailrace.frames import extra, topic
from tailrace.frames.extra import MissingExtraError
from tailrace.frames.topic import ConsumerRecord, TopicWindow, WindowPages
from tailrace.reading.start import Start


async def pages(window: TopicWindow, *ends: int) -> tuple[list[int], bool]:
    """The sizes of the pages, and whether that was all."""
    reading = WindowPages(window, Cluster(*ends), 60_000)
    sizes = []
    while page := await reading.read():
        sizes.append(len(page))
    await reading.close()
    return sizes, reading.complete


async def test_a_window_ends_at_the_end_or_at_its_limit() -> None:
    sizes, complete = await pages(TopicWindow("t"), 3, 2)
    assert (sum(sizes), complete) == (5, True)
    assert await pages(TopicWindow("t", limit=2), 3) == ([2], False)
    assert await pages(TopicWindow("t", Start(back=1)), 3) == ([1], True)
    assert await pages(TopicWindow("t"), 0) == ([], True)


class Stalled(Cluster):
    """A cluster whose second record is never given out."""

    def _row(self, part: Any) -> Any:
        row = super()._row(part)
        if part.fetch_offset > 0:
            row.records = b""
        return row


async def test_a_broker_that_gives_nothing_more_is_not_taken_for_the_end() -> None:
    reading = WindowPages(TopicWindow("t"), Stalled(2), 50)
    assert len(await reading.read()) == 1
    with pytest.raises(TimeoutError, match=r"nothing of t could be read for 0\.05 s"):
        await reading.read()
    await reading.close()


_LEFT_OPEN = """
from support.reading import Cluster
from tailrace.frames import topic
import tailrace

class Connected(Cluster):
    async def close(self):
        pass

topic.BootstrapNodes = lambda *_: Connected(3)
records = iter(tailrace.read("t", bootstrap="127.0.0.1:1"))
print(next(records).value)
"""


def test_a_program_ends_with_a_window_open() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path}\n{_LEFT_OPEN}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("b'0'\n", "")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """In place of the connections of `tailrace.read`."""

    class Connected(Cluster):
        async def close(self) -> None:
            pass

    found = Connected(3)
    monkeypatch.setattr(topic, "BootstrapNodes", lambda *_: found)
    return found


def test_records_are_read_anew_by_each_use_also_where_a_loop_runs(cluster: Cluster) -> None:
    records = tailrace.read("t", bootstrap="127.0.0.1:1")
    assert [record.value for record in records] == [b"0", b"1", b"2"] == [record.value for record in records]
    assert records.complete

    async def in_a_notebook() -> list[ConsumerRecord]:
        return list(tailrace.read("t", bootstrap="127.0.0.1:1", last=1))

    (last,) = asyncio.run(in_a_notebook())
    assert (last.topic, last.partition, last.offset, last.value) == ("t", 0, 2, b"2")


def test_a_reader_that_stops_early_leaves_no_thread(cluster: Cluster) -> None:
    for _ in tailrace.read("t", bootstrap="127.0.0.1:1"):
        break
    assert len(list(tailrace.read("t", bootstrap="127.0.0.1:1", limit=2))) == 2


def test_a_window_that_makes_no_sense_is_refused() -> None:
    for options in ({"since": "1h", "last": 3}, {"limit": 0}, {"last": -1}):
        with pytest.raises(ValueError, match=r"since or last|count records"):
            tailrace.read("t", **options)
    with pytest.raises(AttributeError):
        vars(tailrace)["__getattr__"]("reed")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without the extra."""
    monkeypatch.setattr(extra, "find_spec", lambda name: None)


@pytest.mark.usefixtures("bare")
def test_a_missing_extra_is_named_with_its_command(tmp_path: Path) -> None:
    records = tailrace.read("t", bootstrap="127.0.0.1:1")
    for frame in (records.arrow, records.polars, records.duckdb):
        with pytest.raises(MissingExtraError, match=r'pip install "tailrace\[frames\]"'):
            frame()
    done = CliRunner().invoke(app, ["sql", "select 1"])
    assert (done.exit_code, "tailrace[frames]" in done.output) == (1, True)

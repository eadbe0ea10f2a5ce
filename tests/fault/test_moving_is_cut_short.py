"""import-kafka and export-kafka killed before their effects on the disk, and with a disk that fails at some.

Whatever happens, the source is as it was, or the target is whole: and the same command again makes it so.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.testing import CliRunner

from support import slow_sync
from support.effects import ALL, KILLED, Commands, Done
from support.kafka_directory import kafka_directory
from tailrace.cli.daily import app
from tailrace.cli.files.takeover import How

Contents: TypeAlias = dict[str, bytes]
MANY, STEP = 40, 4
DATABASE = "/metadata.db"
FAULTS = ((errno.EIO, False), (errno.ENOSPC, True), (errno.EROFS, True))  # once, or from then on
OF_THE_DAY = re.compile(r"metadata\.db$|\.checkpoint$|\.moved-")
OF_SQLITE = re.compile(r"metadata\.db-\w+$")
SQLITE_SAYS = re.compile(r"unable to open database|database or disk is full|disk I/O error|readonly database")


def contents(path: Path) -> Contents:
    """The files below a directory; of those with times or ids of the day in them only that they are there."""
    found = (file for file in path.rglob("*") if file.is_file() and not OF_SQLITE.search(file.name))
    return {str(file.relative_to(path)): b"" if OF_THE_DAY.search(file.name) else file.read_bytes() for file in found}


def importing(place: Path, how: How) -> list[object]:
    return ["import-kafka", place / "source", "--data", place / "target", "--how", how]


def exporting(place: Path, how: How) -> list[object]:
    return ["export-kafka", place / "source", place / "target", "--how", how]


def kafka(path: Path) -> None:
    kafka_directory(path, 7, (7,), records=10)


def tailrace(path: Path) -> None:
    kafka_directory(path.with_name("origin"), 7, (7,), records=10)
    done = CliRunner().invoke(app, ["import-kafka", str(path.with_name("origin")), "--data", str(path)])
    assert done.exit_code == 0, done.output
    shutil.rmtree(path.with_name("origin"))


WAYS = {
    "import by move": (importing, kafka, How.MOVE),
    "export by move": (exporting, tailrace, How.MOVE),
    "import by link": (importing, kafka, How.LINK),
    "export by copy": (exporting, tailrace, How.COPY),
}


class Stage:
    """A source that every trial gets a fresh copy of, and what an undisturbed command makes of it."""

    def __init__(self, folder: Path, which: str) -> None:
        self.command, make, self.how = WAYS[which]
        self.place = folder / "place"
        (folder / "own").mkdir()
        self.original = folder / "original"
        make(self.original)
        self.commands = Commands(folder / "own", self.place)
        self.fresh()
        self.before = self.now("source")
        done = self.run()
        assert done.status == 0, done.said
        self.effects, self.after, self.left = done.effects, self.now("target"), self.now("source")
        assert self.effects > MANY
        assert (self.left == self.before) == (self.how is not How.MOVE)

    def fresh(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        shutil.copytree(self.original, self.place / "source")

    def now(self, name: str) -> Contents:
        """What is there, but for times and ids that no two commands share."""
        return contents(self.place / name)

    def run(self, at: int = ALL, number: int = 0, *, lasts: bool = False, but: str = "") -> Done:
        return self.commands.run(*self.command(self.place, self.how), at=at, number=number, lasts=lasts, but=but)

    def is_valid(self, at: int) -> bool:
        """Asserts that nothing is lost or half there; whether the target is there."""
        made = (self.place / "target").exists()
        if self.how is not How.MOVE:
            assert self.now("source") == self.before, at
        if made:
            assert self.now("target") == self.after, at
        else:
            assert self.now("source").items() >= self.before.items(), at
        return made

    def again(self, at: int, *, made: bool) -> None:
        """The same command completes, or says that the target is there."""
        done = self.run()
        assert done.status == 0 or (made and "exists already" in done.said), (at, done)
        assert self.is_valid(at)
        # A move that had begun to give the source up has ended; one that had not yet is refused for the target.
        assert self.now("source") == (self.left if done.status == 0 else self.before), at
        assert sorted(path.name for path in self.place.iterdir()) == ["source", "target"], at


@pytest.fixture(scope="module", params=WAYS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if why := slow_sync.missing():
        pytest.skip(why)
    stage = Stage(tmp_path_factory.mktemp("stage"), request.param)
    with stage.commands:
        yield stage


def test_a_command_killed_before_any_of_its_effects_is_repeated(stage: Stage) -> None:
    at = 1
    while True:
        stage.fresh()
        done = stage.run(at, but=DATABASE)  # SQLite has a journal, and tests of its own
        if done.status != KILLED:
            break
        stage.again(at, made=stage.is_valid(at))
        at += 1 if stage.how is How.MOVE else STEP
    assert done.status == 0 and at > MANY


def test_a_disk_that_fails_at_any_effect_costs_nothing_and_is_told_in_a_sentence(stage: Stage) -> None:
    for at in range(1, stage.effects + 1, STEP):
        stage.fresh()
        number, lasts = FAULTS[at % len(FAULTS)]
        done = stage.run(at, number, lasts=lasts)
        made = stage.is_valid(at)
        if done.status:
            assert done.status == 1 and len(done.said.splitlines()) == 1, (at, done)
            assert os.strerror(number) in done.said or SQLITE_SAYS.search(done.said), (at, done)
            assert "the same command again" in done.said, (at, done)
        stage.again(at, made=made)

"""What the simulators share: rules broken on purpose, and many worlds run behind a progress bar."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tailrace.records.batch import HEADER_SIZE, BatchHeader, corrupt, read_header

_CHUNK = 10
_SHOWN = 5  # failures told in full

Task = TypeVar("Task")


class Told(Protocol):
    """What a world came to."""

    @property
    def seed(self) -> int: ...

    @property
    def story(self) -> str: ...

    @property
    def failure(self) -> str | None: ...


Came = TypeVar("Came", bound=Told)


@dataclass(frozen=True)
class Broken:
    """One rule that is broken, and what is put in its place: (owner, attribute, replacement)."""

    rule: str
    patches: tuple[tuple[Any, str, Any], ...]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The code is broken inside."""
        kept = [(owner, name, owner.__dict__[name]) for owner, name, _ in self.patches]
        try:
            for owner, name, replacement in self.patches:
                setattr(owner, name, replacement)
            yield
        finally:
            for owner, name, original in kept:
                setattr(owner, name, original)


@dataclass(frozen=True)
class Mutant(Broken):
    """found_by is a seed that found it when this was written; after a change of the simulator another one may."""

    found_by: int = 1

    def is_found(self, simulate: Callable[[int], Told], seeds: int) -> bool:
        """Whether that seed or one of the first `seeds` breaks a promise while the rule is broken."""
        with self.applied():
            return any(simulate(seed).failure for seed in (self.found_by, *range(1, seeds + 1)))


def broken(rule: str, owner: Any, name: str, replacement: Any, found_by: int = 1) -> Mutant:
    """A rule that one attribute keeps."""
    return Mutant(rule, ((owner, name, replacement),), found_by)


def without_crc(data: memoryview) -> BatchHeader:
    """In place of records.batch.validate, for a recovery that believes what it finds."""
    if len(data) < HEADER_SIZE:
        raise corrupt("no header")
    return read_header(data)


def arguments(simulator: str, about: str | None) -> argparse.ArgumentParser:
    """What every simulator can be asked."""
    parser = argparse.ArgumentParser(prog=f"python -m {simulator}", description=about)
    parser.add_argument("--seeds", type=int, default=200, help="how many worlds (200)")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one a core)")
    parser.add_argument("--story", action="store_true", help="run the first seed only and tell all that happened")
    return parser


def explore(
    run: Callable[[Task], Came],
    tasks: Iterable[Task],
    total: int,
    jobs: int,
    console: Console,
    seen: Callable[[Came], None],
) -> list[Came]:
    """Runs a world a task behind a progress bar; each is `seen`, and those that failed are returned."""
    failed: list[Came] = []
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), TextColumn("[red]{task.fields[failed]}"),
    )  # fmt: skip
    left = iter(tasks)
    with ProcessPoolExecutor(jobs) as pool, Progress(*columns, console=console) as progress:
        bar = progress.add_task("worlds", total=total, failed="")
        while chunk := list(islice(left, _CHUNK * jobs * 20)):
            for outcome in pool.map(run, chunk, chunksize=_CHUNK):
                progress.advance(bar)
                seen(outcome)
                if outcome.failure:
                    failed.append(outcome)
                    progress.update(bar, failed=f"{len(failed)} failed")
    return failed


def adding(sums: dict[str, int]) -> Callable[[Any], None]:
    """What `explore` shall see: the counts of all worlds together."""

    def add(outcome: Any) -> None:
        for name in sums:
            sums[name] += getattr(outcome, name)

    return add


def main(simulator: str, about: str | None, simulate: Callable[..., Told], *counts: str) -> int:
    """Any number of worlds that have a seed alone, or the story of one; counts are added up. Returns 1 on a failure."""
    asked = arguments(simulator, about).parse_args()
    if asked.story:
        outcome = simulate(asked.first, whole_story=True)
        print(outcome.story)
        print(f"\nseed {outcome.seed}: {outcome.failure or 'every promise was kept'}")
        return int(outcome.failure is not None)
    began, seeds, sums = time.monotonic(), range(asked.first, asked.first + asked.seeds), dict.fromkeys(counts, 0)
    failed = explore(simulate, seeds, len(seeds), asked.jobs, Console(), adding(sums))
    for line in report(failed, lambda world: f"seed {world.seed}", lambda world: again(simulator, world)):
        print(line)
    told = ", ".join(f"{count} {name}" for name, count in sums.items())
    print(f"{len(seeds)} worlds in {time.monotonic() - began:.0f} s: {told}; {len(failed)} failed")
    return int(bool(failed))


def again(simulator: str, world: Told) -> str:
    """The command that tells a world's story."""
    return f"python -m {simulator} --story --from {world.seed}"


def kept(simulator: str, simulate: Callable[[int], Came], seeds: Iterable[int]) -> Iterator[Came]:
    """What the worlds of these seeds came to; AssertionError, with the story, where a promise was broken."""
    for seed in seeds:
        outcome = simulate(seed)
        assert outcome.failure is None, (
            f"seed {seed}: {outcome.failure}\n{outcome.story}\nagain: PYTHONPATH=tests {again(simulator, outcome)}"
        )
        yield outcome


def report(failed: Sequence[Came], name: Callable[[Came], str], again: Callable[[Came], str]) -> Iterator[str]:
    """Yields the first failures with the end of their stories, and the names of the others."""
    for outcome in failed[:_SHOWN]:
        yield f"\n{outcome.story}\n"
        yield f"{name(outcome)}: {outcome.failure}"
        yield f"again: {again(outcome)}"
    if len(failed) > _SHOWN:
        yield "also: " + "; ".join(name(outcome) for outcome in failed[_SHOWN:])

"""Shows replicas on their way until they are there: partitions done, and bytes where a copy is being made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from tailrace.cli.daily.connection import say
from tailrace.cli.daily.nodes import Nodes
from tailrace.metadata.moves import Partition, Replicas, copied

_LOOK_MS = 500
_SHORTLY_MS = 50
_LOOKS_MAX = 40


class MoveProgress(NamedTuple):
    """How far a set of moves is."""

    partitions: int
    moving: int
    copied_bytes: int
    total_bytes: int

    @property
    def text(self) -> str:
        done = self.partitions - self.moving
        copied = f", {self.copied_bytes / 1e6:,.1f} of {self.total_bytes / 1e6:,.1f} MB of the copies under way"
        return f"{done} of {self.partitions} partitions are moved{copied if self.total_bytes else ''}"


class Show(Protocol):
    """Takes the news."""

    def __call__(self, now: MoveProgress) -> None: ...


def look(cluster: Nodes, partitions: set[Partition]) -> MoveProgress:
    """How far these partitions are now. The largest replica's size counts as the whole."""
    moving = {key: row for key, row in cluster.reassignments().items() if key in partitions}
    sizes = cluster.sizes(moving) if moving else {}
    done = total = 0
    for key, row in moving.items():
        here = {node: size.size_bytes for (node, of), size in sizes.items() if of == key}
        part = copied(max(here.values(), default=0), [here.get(node, 0) for node in row.adding_replicas])
        done, total = done + part.copied_bytes, total + part.total_bytes
    return MoveProgress(len(partitions), len(moving), done, total)


def follow(cluster: Nodes, plan: Mapping[Partition, Replicas], tick: Callable[[], None] = lambda: None) -> None:
    """Returns when none of the plan's partitions is being reassigned any more, and the node that is asked knows it.

    tick is called between two looks.
    """
    watched = set(plan)
    with shown() as show:
        while (now := look(cluster, watched)).moving:
            show(now)
            tick()
            cluster.pause(_LOOK_MS)
        show(now)
    for _ in range(_LOOKS_MAX):  # the controller says it first
        rows = cluster.partitions({name for name, _ in plan})
        if all(key not in rows or tuple(rows[key].replica_nodes) == replicas for key, replicas in plan.items()):
            return
        cluster.pause(_SHORTLY_MS)


@contextmanager
def shown() -> Iterator[Show]:
    """A bar on a terminal, a line for every change elsewhere; on stderr, as stdout is for results."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("", total=None)

        def show(now: MoveProgress) -> None:
            share = now.copied_bytes / now.total_bytes * now.moving if now.total_bytes else 0.0
            done = now.partitions - now.moving + share
            bars.update(task, total=now.partitions, completed=done, description=now.text)

        yield show


class _Lines:
    def __init__(self) -> None:
        self._last = ""

    def __call__(self, now: MoveProgress) -> None:
        if now.text != self._last:
            self._last = now.text
            say(now.text, err=True)

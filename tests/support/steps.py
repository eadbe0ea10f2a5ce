"""How much interpreted work something is, as a number that no machine's load changes: how it grows is the question."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from support.uncollected import uncollected


@dataclass
class Count:
    """The bytecodes that ran; what C does by itself, as the copy of a dict, is one however long it takes."""

    steps: int = 0


def steps(work: Callable[[], Any]) -> int:
    """How many bytecodes run."""
    with _counting() as count:
        work()
    return count.steps


@contextmanager
def _counting() -> Iterator[Count]:
    with uncollected(), _monitored() if sys.version_info >= (3, 12) else _traced() as count:
        yield count


@contextmanager
def _traced() -> Iterator[Count]:
    count = Count()

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count.steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


@contextmanager
def _monitored() -> Iterator[Count]:
    """By PEP 669: a trace function is not told of the first opcodes on Python 3.13."""
    monitoring: Any = getattr(sys, "monitoring")  # noqa: B009  # which mypy, for 3.11, does not know
    tool, event, count = 4, monitoring.events.INSTRUCTION, Count()

    def step(_code: Any, _offset: int) -> None:
        count.steps += 1

    monitoring.use_tool_id(tool, "steps")
    monitoring.register_callback(tool, event, step)
    monitoring.set_events(tool, event)
    try:
        yield count
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)


def grows(work: Callable[[int], Callable[[], Any]], few: int = 50, times: int = 5) -> float:
    """How many times the steps of each of a few things those of each of so many times as many are: linear is 1."""
    for each in (few, few * times):
        work(each)()  # what is remembered from then on is no part of it
    return steps(work(few * times)) / steps(work(few)) / times

"""Slots that take parts from the two ends of one list: what waits runs beside what computes."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

MOST = 5  # slots; a larger machine is no reason for more clusters than ports and memory allow
COUNT = min((os.cpu_count() or 1) + 1, MOST)  # one more than cores, because parts that wait leave theirs idle


def run_all(
    parts: Iterable[Part], slots: int, run: Callable[[Part, int], Result], stop: Callable[[], None]
) -> list[Result]:
    """Runs every part with the number of its slot; returns the results in the order in which the parts ended.

    One slot in three takes parts from the front, the others from the back. Where the run ends early, no part begins any
    more, and `stop` ends those that run.
    """
    waiting = deque(parts)
    lock = threading.Lock()
    results: list[Result] = []

    def take(slot: int) -> Part | None:
        with lock:
            if not waiting:
                return None
            return waiting.popleft() if slot < max(1, slots // 3) else waiting.pop()

    def work(slot: int) -> None:
        while (part := take(slot)) is not None:
            result = run(part, slot)
            with lock:
                results.append(result)

    with ThreadPoolExecutor(slots) as threads:
        try:
            for done in [threads.submit(work, slot) for slot in range(slots)]:
                done.result()
        except BaseException:
            waiting.clear()
            stop()
            raise
    return results

"""Virtual time: one heap of events, one seeded Random, processes that die and stop, and the story of what happened.

An event belongs to a process or to nobody. What belongs to a life that is over is dropped; what is due while the
process stands still (SIGSTOP) waits, in order, until it goes on.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

STORY_LINES = 200
WHOLE_STORY = 1_000_000


class Process:
    """Something that runs: a broker, a controller, a client. `life` counts its starts."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.life = 0
        self.up = False
        self.paused = False
        self._backlog: list[tuple[int, Callable[..., None], tuple[Any, ...]]] = []

    def after(self, delay_ms: float, act: Callable[..., None], *arguments: Any) -> None:
        """Lets this life act after delay_ms of the world's time; the dead do nothing."""
        if self.up:
            self.world.schedule(delay_ms, self, self.life, act, arguments)

    def hold(self, life: int, act: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        """Keeps what is due until resume."""
        self._backlog.append((life, act, arguments))

    def boot(self) -> None:
        """Begins a new life."""
        self.life += 1
        self.up = True
        self.paused = False
        self._backlog.clear()

    def halt(self) -> None:
        """Ends this life; nothing of it happens any more."""
        self.life += 1
        self.up = False
        self.paused = False
        self._backlog.clear()

    def pause(self) -> None:
        """SIGSTOP."""
        self.paused = True

    def resume(self) -> None:
        """SIGCONT: everything that was due happens now, in order."""
        self.paused = False
        backlog, self._backlog = self._backlog, []
        for life, act, arguments in backlog:
            self.world.schedule(0, self, life, act, arguments)

    def say(self, text: str) -> None:
        """Puts a line into the story."""
        self.world.say(self.name, text)


class World:
    """Time passes event by event; `checks` run after each with the process that acted (None for the world itself)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0.0
        self.events = 0
        self.story: list[tuple[float, str, str]] = []
        self.story_lines = STORY_LINES
        self.check: Callable[[Process | None], None] = lambda _process: None
        self._heap: list[tuple[float, int, Process | None, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0

    def schedule(
        self, delay_ms: float, process: Process | None, life: int, act: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        """Puts an event on the heap; events of one moment keep their order."""
        self._order += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._order, process, life, act, arguments))

    def after(self, delay_ms: float, act: Callable[..., None], *arguments: Any) -> None:
        """Lets something happen that no process does."""
        self.schedule(delay_ms, None, 0, act, arguments)

    def run(self, until_ms: float) -> None:
        """Lets time pass; the checks run after each event."""
        heap, check = self._heap, self.check
        while heap and heap[0][0] <= until_ms:
            self.now_ms, _, process, life, act, arguments = heapq.heappop(heap)
            if process is not None:
                if process.life != life:
                    continue
                if process.paused:
                    process.hold(life, act, arguments)
                    continue
            act(*arguments)
            self.events += 1
            check(process)
        self.now_ms = until_ms

    def chance(self, probability: float) -> bool:
        """Throws the dice."""
        return self.random.random() < probability

    def say(self, who: str, text: str) -> None:
        """Puts a line into the story, which keeps its end."""
        self.story.append((self.now_ms, who, text))
        if len(self.story) > 2 * self.story_lines:
            del self.story[: self.story_lines]

    def tell(self) -> str:
        """The end of the story as text."""
        return "\n".join(f"{at:10.1f} ms  {who:12} {text}" for at, who, text in self.story[-self.story_lines :])

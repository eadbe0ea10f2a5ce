"""Time, processes and the network of the world of transactions, on one event loop that the seed drives.

As in sim/coordinator the loop only carries coroutines on: everything that happens is due on the world's clock, and
`run` lets it happen one by one.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from tailrace.clock import Cancellable
from tailrace.net.client import Disconnected

STORY_LINES = 250
WALL_MS = 1_700_000_000_000


class _Event:
    __slots__ = ("act", "at_ms", "order")

    def __init__(self, at_ms: float, order: int, act: Callable[[], object]) -> None:
        self.at_ms = at_ms
        self.order = order
        self.act: Callable[[], object] | None = act

    def __lt__(self, other: _Event) -> bool:
        return (self.at_ms, self.order) < (other.at_ms, other.order)

    def cancel(self) -> None:
        self.act = None


@dataclass
class Weather:
    """How bad the network is: shares of the messages."""

    loss: float = 0.0
    late: float = 0.0  # of lost requests: those that arrive long after they were given up
    slow: float = 0.0
    duplicates: float = 0.0


class _Turn:
    """Lets everybody else run once."""

    def __await__(self) -> Any:
        yield


class World:
    """One heap of events; the checker hears of what each of them appends and shows."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0.0
        self.events = 0
        self.weather = Weather()
        self.loop = asyncio.new_event_loop()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.failures: list[BaseException] = []
        self.story: list[str] = []
        self.story_lines = STORY_LINES
        self._heap: list[_Event] = []
        self._order = 0

    def after(self, delay_ms: float, act: Callable[[], object]) -> _Event:
        """Lets something happen."""
        self._order += 1
        event = _Event(self.now_ms + delay_ms, self._order, act)
        heapq.heappush(self._heap, event)
        return event

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def say(self, who: str, text: str) -> None:
        """Puts a line into the story, which keeps its end."""
        self.story.append(f"{self.now_ms:9.1f} ms  {who:16} {text}")
        if len(self.story) > 2 * self.story_lines:
            del self.story[: self.story_lines]

    def tell(self) -> str:
        return "\n".join(self.story[-self.story_lines :])

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs a coroutine beside the others; what it raises ends the world."""
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.failures.append(failure)

    def run(self, until_ms: float) -> None:
        """Lets time pass event by event. Raises what anybody raised."""
        self.loop.run_until_complete(self._run(until_ms))

    async def _run(self, until_ms: float) -> None:
        heap = self._heap
        await self._settle()
        while heap and heap[0].at_ms <= until_ms:
            event = heapq.heappop(heap)
            if event.act is None:
                continue
            self.now_ms = event.at_ms
            event.act()
            self.events += 1
            await self._settle()
        self.now_ms = until_ms

    async def _settle(self) -> None:
        """Lets run what can run now."""
        ready = vars(self.loop)["_ready"]  # the only way to know that all is at rest
        while ready:
            await _Turn()
        if self.failures:
            raise self.failures[0]

    def close(self) -> None:
        self.failures.clear()
        for _ in range(3):
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
        self.loop.close()


class Process:
    """Something that can be killed and stopped. What is due for a stopped one waits; for a dead one it is lost."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.life = 0
        self.up = False
        self.paused = False
        self.wall_skew_ms = 0
        self._backlog: list[tuple[int, Callable[[], object]]] = []
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in order: a set's order is that of addresses in memory

    def deliver(self, life: int, act: Callable[[], object]) -> None:
        """Lets this life act."""
        if life != self.life:
            return
        if self.paused:
            self._backlog.append((life, act))
        else:
            act()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A coroutine that dies with this life."""
        task = self.world.spawn(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    def boot(self) -> None:
        """Begins a life."""
        self.up = True

    def kill(self) -> None:
        """Ends this life (kill -9)."""
        self.say("is killed")
        self.end()

    def end(self) -> None:
        """Ends this life."""
        self.life += 1
        self.up = self.paused = False
        self._backlog.clear()
        for task in list(self._tasks):
            task.cancel()

    def pause(self) -> None:
        """SIGSTOP."""
        self.say("is stopped (SIGSTOP)")
        self.paused = True

    def resume(self) -> None:
        """SIGCONT."""
        if self.paused:
            self.say("goes on (SIGCONT)")
            self.paused = False
            backlog, self._backlog = self._backlog, []
            for life, act in backlog:
                self.deliver(life, act)

    def say(self, text: str) -> None:
        self.world.say(self.name, text)

    async def serve(self, request: Any, version: int) -> Any:
        """Answers a request. Raises Disconnected where nobody answers."""
        raise NotImplementedError

    # -- the clock port ----------------------------------------------------------------------------------------------

    def wall_ms(self) -> int:
        return int(WALL_MS + self.world.now_ms + self.wall_skew_ms)

    def monotonic_ms(self) -> float:
        return self.world.now_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        life = self.life
        return self.world.after(delay_ms, lambda: self.deliver(life, callback))

    async def sleep(self, delay_ms: float) -> None:
        woken = asyncio.Event()
        timer = self.call_later(delay_ms, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()


class _Call:
    """One request under way: the asker hears the first answer, or that there is none."""

    __slots__ = ("answer", "done")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.answer: asyncio.Future[Any] = loop.create_future()

    @property
    def over(self) -> bool:
        return self.answer.done()

    def finish(self, outcome: Any) -> None:
        if not self.answer.done():
            if isinstance(outcome, BaseException):
                self.answer.set_exception(outcome)
            else:
                self.answer.set_result(outcome)


async def ask(
    source: Process,
    target: Process,
    serve: Callable[[], Awaitable[Any]],
    timeout_ms: float,
    *,
    repeats: bool = True,
) -> Any:
    """Asks over a network that loses, delays, repeats and reorders. Raises Disconnected or TimeoutError.

    What was given up may arrive long after. repeats=False: it does not, but for the last one of an asker that died. It
    is for requests that nothing tells from the next one of their kind, so that they rely on the connection (transaction
    versions 0 and 1).
    """
    world, weather, random = source.world, source.world.weather, source.world.random
    call = _Call(world.loop)
    life, asker = target.life, source.life

    def send() -> None:
        if not repeats and call.over:
            return
        target.deliver(life, lambda: target.spawn(_serve(serve, reply)))

    def reply(outcome: Any) -> None:
        if world.chance(weather.loss):
            world.after(150, lambda: source.deliver(asker, lambda: call.finish(Disconnected("the answer was lost"))))
        else:
            world.after(_delay_ms(world), lambda: source.deliver(asker, lambda: call.finish(outcome)))

    timer = world.after(timeout_ms, lambda: source.deliver(asker, lambda: call.finish(TimeoutError())))
    if not target.up:
        world.after(_delay_ms(world), lambda: source.deliver(asker, lambda: call.finish(Disconnected("refused"))))
    elif world.chance(weather.loss):
        world.after(150, lambda: source.deliver(asker, lambda: call.finish(Disconnected("the request was lost"))))
        if world.chance(weather.late):
            world.after(random.uniform(100, 2_500), send)
    else:
        world.after(_delay_ms(world), send)
        if world.chance(weather.duplicates):
            world.after(random.uniform(0, 400), send)
    try:
        return await call.answer
    finally:
        timer.cancel()


async def _serve(serve: Callable[[], Awaitable[Any]], reply: Callable[[Any], None]) -> None:
    try:
        outcome = await serve()
    except Exception as refused:
        if isinstance(refused, AssertionError):
            raise
        outcome = refused
    reply(outcome)


def _delay_ms(world: World) -> float:
    if world.chance(world.weather.slow):
        return world.random.uniform(20, 300)
    return world.random.uniform(0.2, 4)

"""Requests and answers between processes, over links that lose, delay, reorder, duplicate and get cut, also one way.

An answer belongs to its request, as a connection has it: what comes after the asker gave up is dropped. A request may
come twice, late, or long after the asker gave up: that is what a retry over a second connection looks like.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from sim.replication.world import Process, World

Reply: TypeAlias = Callable[[Any], None]
Handler: TypeAlias = Callable[[Any, Reply], None]


@dataclass
class Weather:
    """How bad the network is."""

    delay_ms: tuple[float, float] = (0.5, 3.0)
    slow: float = 0.0  # the share of messages that take `slow_ms`
    slow_ms: tuple[float, float] = (20.0, 400.0)
    loss: float = 0.0
    duplicates: float = 0.0


class _Call:
    __slots__ = ("answer", "done")

    def __init__(self, answer: Callable[[Any], None]) -> None:
        self.answer = answer
        self.done = False

    def finish(self, outcome: Any) -> None:
        if not self.done:
            self.done = True
            self.answer(outcome)


class Network:
    """All links; processes are its ends."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.weather = Weather()
        self.cut: set[tuple[str, str]] = set()

    def call(
        self, source: Process, target: Process, handler: Handler, request: Any, answer: Reply, timeout_ms: float
    ) -> None:
        """Asks; `answer` gets the reply, or None when the connection fails or nobody answers in time."""
        call = _Call(answer)
        asker, life = source.life, target.life
        source.after(timeout_ms, call.finish, None)

        def reply(outcome: Any) -> None:
            self._send(target, source, asker, call.finish, outcome)

        if not target.up:
            reply(None)  # connection refused
            return
        self._send(source, target, life, handler, request, reply)
        if self.world.chance(self.weather.duplicates):
            late_ms = self.world.random.uniform(0, 500)
            self.world.after(late_ms, self._send, source, target, life, handler, request, reply)

    def _send(self, source: Process, target: Process, life: int, act: Callable[..., None], *arguments: Any) -> None:
        """Brings something to one life of target, or does not."""
        weather, random = self.weather, self.world.random
        if (source.name, target.name) in self.cut or (weather.loss and random.random() < weather.loss):
            return
        span = weather.slow_ms if weather.slow and random.random() < weather.slow else weather.delay_ms
        delay_ms = span[0] + (span[1] - span[0]) * random.random()
        self.world.schedule(delay_ms, target, life, act, arguments)

    def heal(self) -> None:
        """All links are whole and the weather is fine."""
        self.cut.clear()
        self.weather = Weather()

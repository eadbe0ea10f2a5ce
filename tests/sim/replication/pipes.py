"""A client's connection to a broker: requests arrive and answers leave in order; what is lost is all that was on it.

A cut link holds up what is on its way until it heals, in either direction, as TCP does. Requests behind one another may
arrive at different moments, so what a broker learns in between tells them apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.replication.network import Network
from sim.replication.world import Process
from tailrace_broker.produce.refused_batches import MISSING, RETRIED, RefusedBatches

if TYPE_CHECKING:
    from sim.replication.brokers import Broker
    from sim.replication.clients import Produce, Produced

SOCKET_TIMEOUT_MS = 4_000
_LOOK_AGAIN_MS = 20.0


class _Asked:
    __slots__ = ("answer", "answered", "request")

    def __init__(self, request: Produce, answered: Callable[[Produced | None], None]) -> None:
        self.request = request
        self.answered = answered
        self.answer: Produced | None = None


class Pipe:
    """One connection, to one life of a broker; `broken` once it is over."""

    def __init__(self, client: Process, broker: Broker, network: Network) -> None:
        self.client = client
        self.broker = broker
        self.network = network
        self.world = client.world
        self.life = broker.life
        self.broken = False
        self.refused = RefusedBatches()
        self._going: deque[_Asked] = deque()
        self._there: deque[_Asked] = deque()
        self._coming: deque[_Asked] = deque()
        self._pumps: set[str] = set()

    def ask(self, request: Produce, answered: Callable[[Produced | None], None]) -> None:
        """Sends a Produce; answered gets None if the connection breaks before its answer has come."""
        asked = _Asked(request, answered)
        request.refused = self.refused
        self._going.append(asked)
        self.world.after(SOCKET_TIMEOUT_MS, self._late, asked)
        self._pump("out")

    def _pump(self, way: str, delay_ms: float | None = None) -> None:
        if way not in self._pumps and not self.broken:
            self._pumps.add(way)
            span = self.network.weather.delay_ms
            delay_ms = self.world.random.uniform(*span) if delay_ms is None else delay_ms
            self.world.after(delay_ms, self._deliver if way == "out" else self._return)

    def _cut(self, source: Process, target: Process) -> bool:
        return (source.name, target.name) in self.network.cut

    def _deliver(self) -> None:
        self._pumps.discard("out")
        if self.broken:
            return
        if self.broker.life != self.life:
            self._break()
        elif self._cut(self.client, self.broker):
            self._pump("out", _LOOK_AGAIN_MS)
        elif self._going:
            for _ in range(self.world.random.randint(1, len(self._going))):
                asked = self._going.popleft()
                self._there.append(asked)
                self.world.schedule(0, self.broker, self.life, self._handle, (asked,))
            if self._going:
                self._pump("out")

    def _handle(self, asked: _Asked) -> None:
        def reply(answer: Produced) -> None:
            place = (b"", asked.request.partition)
            if answer.error in RETRIED and answer.message is not MISSING:
                self.refused.refused(place)
            asked.answer = answer
            while self._there and self._there[0].answer is not None:
                self._coming.append(self._there.popleft())
            if self._coming:
                self._pump("back")

        self.broker.on_produce(asked.request, reply)

    def _return(self) -> None:
        self._pumps.discard("back")
        if self.broken:
            return
        if self._cut(self.broker, self.client):
            self._pump("back", _LOOK_AGAIN_MS)
            return
        while self._coming:
            asked = self._coming.popleft()
            asked.answered(asked.answer)

    def _late(self, asked: _Asked) -> None:
        if asked in self._going or asked in self._there or asked in self._coming:
            self._break()

    def _break(self) -> None:
        if self.broken:
            return
        self.broken = True
        for asked in [*self._coming, *self._there, *self._going]:
            asked.answered(None)

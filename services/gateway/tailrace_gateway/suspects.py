"""Brokers that seem to have died: for a moment the gateway knows more than the image does.

When a broker dies, its connections break at once and clients ask for metadata within a millisecond; the controller
needs some 20 ms to fence it and to elect new leaders. An answer from the old image would send the client back to the
dead broker and into its backoffs (librdkafka: two of 100 ms). So Metadata that would name a suspect as leader waits for
the controller's word, and no longer than the time in which a dead broker is fenced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from tailrace.clock import Clock
from tailrace.metadata.image import MetadataImage, TopicImage
from tailrace.net.authentication.secret import Secret
from tailrace.net.identity import Identity
from tailrace.net.members.endpoints import address_of
from tailrace_gateway.relay.node import Exchange

JUDGEMENT_MS = 150.0


@dataclass(slots=True)
class _Suspected:
    """Of one life of a broker; nobody waits for its end beyond until_ms."""

    broker_epoch: int
    until_ms: float
    probing: asyncio.Task[None] | None = None


class GatewayOfSuspects(Protocol):
    """What the probes of suspected brokers need of their Gateway."""

    clock: Clock
    boot_id: str
    secret: Secret | None

    @property
    def image(self) -> MetadataImage: ...

    @property
    def follower(self) -> Any: ...

    def run_in_background(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Runs something beside the requests."""


class Suspects:
    """By node id. One ends by an image that gives the broker up, or by a probe that somebody answers."""

    def __init__(self, gateway: GatewayOfSuspects) -> None:
        self._gateway = gateway
        self._suspected: dict[int, _Suspected] = {}

    def broke(self, node_id: int) -> None:
        """A connection to the node broke: that may be the node's end, and a probe shows it."""
        if suspected := self._suspect(node_id):
            suspected.probing = self._gateway.run_in_background(self._probe(node_id))

    def refused(self, node_id: int) -> None:
        """Nobody listens where the image says that the node does."""
        self._suspect(node_id)

    async def settled(self, topics: Callable[[], Iterable[TopicImage]]) -> None:
        """Returns when no suspect leads any of these topics, or when the time for a judgement is over."""
        open_cases = self._open()
        if not open_cases:
            return
        led = {partition.leader for topic in topics() for partition in topic.partitions}
        if led.isdisjoint(open_cases):
            return
        if probes := [case.probing for case in open_cases.values() if case.probing is not None]:
            await asyncio.wait(probes, timeout=JUDGEMENT_MS / 1000)
        if cases := {node: case for node, case in self._open().items() if node in led}:
            left_ms = max(case.until_ms for case in cases.values()) - self._gateway.clock.monotonic_ms()
            try:
                await self._gateway.follower.wait_for(
                    lambda image: all(_judged(image, node, case.broker_epoch) for node, case in cases.items()), left_ms
                )
            except TimeoutError:
                return

    def _open(self) -> dict[int, _Suspected]:
        """Whom the image still takes for alive and whose time is not over; forgets those it knows to be gone."""
        image, now_ms = self._gateway.image, self._gateway.clock.monotonic_ms()
        for node in [n for n, case in self._suspected.items() if _judged(image, n, case.broker_epoch)]:
            del self._suspected[node]
        return {node: case for node, case in self._suspected.items() if case.until_ms > now_ms}

    def _suspect(self, node_id: int) -> _Suspected | None:
        """A new case; None where there is nothing to suspect or the case is known."""
        broker = self._gateway.image.brokers.get(node_id)
        known = self._suspected.get(node_id)
        if broker is None or broker.fenced or (known is not None and known.broker_epoch == broker.broker_epoch):
            return None
        until_ms = self._gateway.clock.monotonic_ms() + JUDGEMENT_MS
        suspected = self._suspected[node_id] = _Suspected(broker.broker_epoch, until_ms)
        return suspected

    async def _probe(self, node_id: int) -> None:
        """A broker that answers is no suspect: only a connection broke.

        To be let in proves nothing: a killed process's connections are closed some ms before its listener is.
        """
        gateway = self._gateway
        broker = gateway.image.brokers.get(node_id)
        address = None if broker is None else address_of(broker.endpoints, gateway.boot_id)
        if address is None:
            return
        try:
            exchange = await Exchange.open(address, Identity(node_id=node_id), JUDGEMENT_MS, gateway.secret)
        except OSError:
            return
        exchange.close()
        self._suspected.pop(node_id, None)


def _judged(image: MetadataImage, node_id: int, broker_epoch: int) -> bool:
    """Whether the image knows better: the life that was suspected is over."""
    broker = image.brokers.get(node_id)
    return broker is None or broker.fenced or broker.broker_epoch != broker_epoch

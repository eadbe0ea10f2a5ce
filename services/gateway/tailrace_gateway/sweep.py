"""Connections that have gone quiet: idle ones, frames that never become whole, clients that never read.

One pass over all connections every few seconds, with one clock for all of them: nothing is timed per request.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tailrace.clock import Cancellable

_INTERVAL_MS_MIN = 10.0

if TYPE_CHECKING:
    from tailrace_gateway.connection import ClientLink
    from tailrace_gateway.gateway import Gateway


class Sweep:
    """Runs until closed."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        limits = gateway.limits
        idle_ms = limits.idle_ms if limits.idle_ms > 0 else math.inf  # 0 or less: never, as in Apache Kafka
        self.interval_ms = max(min(limits.head_ms, limits.dribble_ms, idle_ms) / 2, _INTERVAL_MS_MIN)
        self._timer: Cancellable = gateway.clock.call_later(self.interval_ms, self._run)

    def _run(self) -> None:
        for connection in list(self._gateway.connections):
            why = judge(connection, self.interval_ms)
            if why == IDLE:
                connection.close()
            elif why:
                connection.refuse(why)
        self._timer = self._gateway.clock.call_later(self.interval_ms, self._run)

    def close(self) -> None:
        self._timer.cancel()


IDLE = "idle"


def judge(connection: ClientLink, passed_ms: float) -> str:
    """Counts the time without progress; says why the connection must go, or nothing."""
    limits = connection.gateway.limits
    received, sent = connection.swept_bytes
    came, went = connection.received_bytes - received, connection.sent_bytes - sent
    connection.swept_bytes = (connection.received_bytes, connection.sent_bytes)
    connection.quiet_ms = 0.0 if came or went else connection.quiet_ms + passed_ms
    if connection.waits_for_bytes:
        connection.torn_ms += passed_ms
        connection.torn_bytes += came
        if connection.requests.between_frames:
            if connection.torn_ms > limits.head_ms:
                return f"no whole request head within {connection.torn_ms:.0f} ms"
        elif connection.torn_ms > limits.dribble_ms:
            if connection.torn_bytes < limits.dribble_bytes:
                return f"a frame brought {connection.torn_bytes} bytes in {connection.torn_ms:.0f} ms"
            connection.torn_ms, connection.torn_bytes = 0.0, 0
    else:
        connection.torn_ms, connection.torn_bytes = 0.0, 0
    if limits.idle_ms > 0 and connection.quiet_ms >= limits.idle_ms:
        if connection.outbox:
            return f"the client has taken no answer for {connection.quiet_ms:.0f} ms"
        if not connection.busy and not connection.handed_over:  # its broker sees whether it is idle
            return IDLE
    return ""

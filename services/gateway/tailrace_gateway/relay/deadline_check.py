"""Connections that have gone quiet at this gateway, looked at by one sweep over all of them (tailrace.net.limits)."""

from __future__ import annotations

import asyncio

from tailrace.clock import Cancellable
from tailrace.net.limits.deadlines import IDLE, ConnectionDeadlines
from tailrace.net.pieces import in_pieces
from tailrace_gateway.answering import AnsweringGateway
from tailrace_gateway.relay.client import ClientLink


class RelayDeadlineCheck:
    """Runs until closed."""

    def __init__(self, gateway: AnsweringGateway) -> None:
        self._gateway = gateway
        limits = gateway.limits
        self._deadlines = ConnectionDeadlines(limits.idle_ms, limits.head_ms, limits.dribble_ms, limits.dribble_bytes)
        self.interval_ms = self._deadlines.interval_ms
        self._sweeping: asyncio.Task[None] | None = None
        self._timer: Cancellable = gateway.clock.call_later(self.interval_ms, self._run)

    def _run(self) -> None:
        self._sweeping = asyncio.get_running_loop().create_task(self._sweep())

    async def _sweep(self) -> None:
        async for connection in in_pieces(list(self._gateway.connections)):
            if connection.closed:
                continue
            why = judge(connection, self._deadlines, self.interval_ms)
            if why == IDLE:
                connection.close()
            elif why:
                connection.refuse(why)
        self._timer = self._gateway.clock.call_later(self.interval_ms, self._run)

    def close(self) -> None:
        self._timer.cancel()
        if self._sweeping is not None:
            self._sweeping.cancel()


def judge(connection: ClientLink, deadlines: ConnectionDeadlines, passed_ms: float) -> str:
    """Counts the time without progress; says why the connection must go, or nothing."""
    received, sent = connection.swept_bytes
    came, went = connection.received_bytes - received, connection.sent_bytes - sent
    connection.swept_bytes = (connection.received_bytes, connection.sent_bytes)
    quiet = connection.quiet
    if not connection.waits_for_bytes:
        quiet.whole()
    elif why := quiet.torn(deadlines, passed_ms, came, head=connection.requests.between_frames):
        return why
    # A broker sees by itself whether a client that was handed over to it is idle.
    owed = connection.busy or connection.handed_over
    return quiet.idle(deadlines, passed_ms, moved=bool(came or went), unsent=bool(connection.outbox), owed=owed)

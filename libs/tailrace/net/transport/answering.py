"""The sending half of a connection: a slot for every request, in order; files past the transport; back-pressure."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from tailrace.log.read import Slice
from tailrace.net.limits.request_memory import RequestMemory
from tailrace.net.transport.outbox import Outbox
from tailrace.net.transport.receiving import Receiving
from tailrace.wire.malformed import Malformed

IN_FLIGHT_MAX = 256


class Promised:
    """The slot of a hot request whose answer comes later while the next requests go on: set answer, then call flush."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: list[Any] | None = None


class Answering(Receiving):
    """Answers leave in the order of their slots; while the client does not take them nothing is read."""

    def __init__(self, log: Any, memory: RequestMemory) -> None:
        super().__init__(memory)
        self._log = log
        self._slots: deque[Any] = deque()
        self._answered_bytes = 0
        self._outbox: Outbox | None = None  # from the first answer with a slice on
        self._paused = False
        self._waiting = False  # a hot request left a future: the next one waits, as in Kafka
        self._ended = False  # the client sends no more; closed once all is answered
        self._refused = False  # no more requests are handled; closed now, or once the client has taken its answers
        self.sends_files = False  # whether answers may hold Slices

    def close(self) -> None:
        """Handles no more; what was written leaves first."""
        self._refused = True
        if self._transport is not None:
            self._transport.close()

    def _refuse(self, why: str) -> None:
        raise AssertionError("a subclass says why, and closes")

    def abort(self) -> None:
        """Closes at once; what has not been sent is not."""
        self._refused = True
        self._transport.abort()

    @property
    def _sending_files(self) -> bool:
        return self._outbox is not None and self._outbox.busy

    @property
    def _unsent_bytes(self) -> int:
        return int(self._transport.get_write_buffer_size()) + (self._outbox.unsent_bytes if self._outbox else 0)

    def pause_writing(self) -> None:
        self._paused = True
        if not self._held:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        if not self._held:
            self._transport.resume_reading()
        self._parse()

    def _answer_hot(self, answer: Any) -> None:
        """Queues what a hot handler returned."""
        if type(answer) is list:  # filled by the end of the read, if not now
            if answer:
                self._answered_bytes += sum(map(len, answer))
        elif isinstance(answer, asyncio.Future):
            self._waiting = True
            answer.add_done_callback(self._slot_done)
        self._slots.append(answer)

    def _slot_done(self, slot: asyncio.Future[Any]) -> None:
        failed = None if slot.cancelled() else slot.exception()
        if isinstance(failed, Malformed):  # found by the thread that decodes large requests
            assert self._slots[-1] is slot  # nothing is read behind it
            self._slots.pop()
            self._refuse(str(failed))
            return
        if failed is not None:
            self._log.error("hot handler failed", error=repr(failed))
            self.close()
            return
        self._waiting = False
        self._flush()
        self._parse()

    def flush(self) -> None:
        """Promised answers have come: they go out, and requests that waited for a free slot are handled."""
        self._flush()
        if self._filled or self._leaving or self._ended:
            self._parse()

    def _flush(self) -> None:
        """Writes every answer that is ready and not behind one that is not, with one call."""
        if self._outbox is not None and self._outbox.busy:
            return
        slots, out, files = self._slots, [], False
        self._answered_bytes = 0
        while slots:
            slot = slots[0]
            if type(slot) is not list:
                if type(slot) is Promised:
                    slot = slot.answer
                    if slot is None:
                        break
                elif isinstance(slot, asyncio.Future):
                    if not slot.done():
                        break
                    if slot.cancelled():
                        self.close()
                        return
                    slot = slot.result()
            slots.popleft()
            if type(slot) is list:
                out.extend(slot)
                files = files or (len(slot) > 1 and Slice in map(type, slot))
            else:
                out.append(slot)
        if out and not self._transport.is_closing():
            if files:
                self._send_files(out)
            elif len(out) == 1:
                self._transport.write(out[0])
            else:
                self._transport.writelines(out)

    def _send_files(self, out: list[Any]) -> None:
        """Past the transport if it has nothing to send, else through it, with copies."""
        if self._transport.get_write_buffer_size():
            self._transport.writelines([piece.read() if type(piece) is Slice else piece for piece in out])
            return
        if self._outbox is None:
            self._outbox = Outbox(self._transport.get_extra_info("socket"), self._sent, self._broke)
        if not self._outbox.send(out) and self._outbox.busy:
            self.pause_writing()

    def _sent(self) -> None:
        """The client has taken the files: what waited for that goes on."""
        if self._refused:
            self.close()
        else:
            self.resume_writing()

    def _broke(self, error: OSError) -> None:
        if not isinstance(error, ConnectionError):
            self._log.error("answer not sent", error=str(error))
        self._transport.abort()

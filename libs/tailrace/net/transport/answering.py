"""The sending half of a connection: a slot for every request, in order; files past the transport; back-pressure."""

from __future__ import annotations

import asyncio
from typing import cast

from structlog.typing import FilteringBoundLogger

from tailrace.net.limits.request_memory import Share
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.requests.times import RequestTimes
from tailrace.net.transport.outbox import FILE_PIECES, Outbox
from tailrace.net.transport.receiving import Receiving
from tailrace.net.transport.writing import write_all
from tailrace.wire.connection import AWAITED, BUSY, CLOSED, UNTAKEN, Promised
from tailrace.wire.malformed import Malformed
from tailrace.wire.pieces import Bytes, Piece


class Answering(Receiving):
    """Answers leave in the order of their slots; while the client does not take them nothing is read."""

    def __init__(self, share: Share, log: FilteringBoundLogger, memory: RoleMemory, max_frame_bytes: int) -> None:
        super().__init__(share, memory.requests, max_frame_bytes)
        self._log = log
        self._answers = memory.answers
        self._outbox: Outbox | None = None  # from the first answer with a slice on
        # What a hot request left: the next one waits, as in Kafka.
        self._awaited: asyncio.Future[list[Piece]] | None = None
        self._times: RequestTimes | None = None  # where they are measured
        self.sends_files = False  # whether answers may hold Slices

    def close(self) -> None:
        """Handles no more; what was written leaves first."""
        self.core.close()
        if self._transport is not None:
            self._transport.close()

    def _refuse(self, why: str) -> None:
        raise AssertionError("a subclass says why, and closes")

    def abort(self) -> None:
        """Closes at once; what has not been sent is not."""
        self.core.close()
        self._transport.abort()

    @property
    def _sending_files(self) -> bool:
        return self._outbox is not None and self._outbox.busy

    @property
    def _unsent_bytes(self) -> int:
        return int(self._transport.get_write_buffer_size()) + (self._outbox.unsent_bytes if self._outbox else 0)

    @property
    def _memory_bytes(self) -> int:
        """What of the answers that have not left is in memory."""
        buffered = int(self._transport.get_write_buffer_size())
        return buffered + (self._outbox.memory_bytes if self._outbox else 0)

    def pause_writing(self) -> None:
        self.core.stops |= UNTAKEN
        self._answers.untaken(self, self._memory_bytes)
        if not self._held:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self.core.stops &= ~UNTAKEN
        self._answers.taken(self)
        self._give_back_taken()
        if not self._held:
            self._transport.resume_reading()
        self._parse()
        self._give_back_taken()  # of what waited behind files

    def _give_back_taken(self) -> None:
        """Gives the memory for large answers back once the client has all that are known."""
        if self._answers.held_bytes and not self.core.slots and not self.core.stops & (BUSY | UNTAKEN):
            self._answers.give_back(self)

    def _answer_hot(self, answer: list[Piece] | asyncio.Future[list[Piece]] | Promised) -> None:
        """Queues what a hot handler returned."""
        core = self.core
        if type(answer) is list:  # filled by the end of the read, if not now
            if answer:
                core.answered_bytes += sum(map(len, answer))
        elif isinstance(answer, asyncio.Future):
            core.stops |= AWAITED
            self._awaited, answer = answer, Promised()
            self._awaited.add_done_callback(self._awaited_came)
        core.slots.append(answer)

    def _awaited_came(self, awaited: asyncio.Future[list[Piece]]) -> None:
        core, self._awaited = self.core, None
        self._answered_kept()
        if not core.slots:  # the connection was lost
            return
        if awaited.cancelled():
            self.close()
            return
        failed = awaited.exception()
        if isinstance(failed, Malformed):  # found by the thread that decodes large requests
            core.slots.pop()  # nothing is read behind it
            self._refuse(str(failed))
            return
        if failed is not None:
            self._log.error("hot handler failed", error=repr(failed))
            self.close()
            return
        slot = core.slots[-1]
        assert isinstance(slot, Promised)
        slot.answer = awaited.result()
        core.stops &= ~AWAITED
        self._flush()
        self._give_back_taken()
        self._parse()

    def flush(self) -> None:
        """Promised answers have come: they go out, and requests that waited for a free slot are handled."""
        self._flush()
        self._give_back_taken()
        if self._filled or self.core.ended:
            self._parse()

    def _flush(self) -> None:
        """Writes every answer that is ready and not behind one that is not, with one call."""
        if self._outbox is not None and self._outbox.busy:
            return
        owed = len(self.core.slots)
        out = self.core.take_ready()
        if self._times is not None and (count := owed - len(self.core.slots)):
            self._times.answered(count)
        if out and not self._transport.is_closing():
            if len(out) == 1:
                self._transport.write(out[0])
            elif self.sends_files and not FILE_PIECES.isdisjoint(map(type, out)):
                self._send_files(out)
            else:
                write_all(self._transport, cast("list[Bytes]", out))  # no piece of a file is among them

    def _send_files(self, out: list[Piece]) -> None:
        """Past the transport if it has nothing to send, else through it, with copies."""
        if self._transport.get_write_buffer_size():
            write_all(self._transport, [piece if isinstance(piece, Bytes) else piece.read() for piece in out])
            return
        if self._outbox is None:
            self._outbox = Outbox(self._transport.get_extra_info("socket"), self._sent, self._broke)
        if not self._outbox.send(out) and self._outbox.busy:
            self.pause_writing()

    def _sent(self) -> None:
        """The client has taken the files: what waited for that goes on."""
        if self.core.stops & CLOSED:
            self.close()
        else:
            self.resume_writing()

    def _broke(self, error: OSError) -> None:
        if not isinstance(error, ConnectionError):
            self._log.error("answer not sent", error=str(error))
        self._transport.abort()

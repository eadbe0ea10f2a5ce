"""What `up` shows: its children's log lines with prefix and colour on stderr, its own news on stdout."""

from __future__ import annotations

import json
import os
import select
from collections import deque
from collections.abc import Callable

_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
_WAITING_BYTES_MAX = 1 << 20
# poll(2): a pipe that is writable takes PIPE_BUF bytes without blocking.
_CHUNK_BYTES = select.PIPE_BUF


class Outlet:
    """A stream that never blocks its writer: what nobody reads is dropped beyond 1 MiB, and said so."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._dropped = 0
        self._closed = False
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def write(self, line: bytes) -> None:
        if self._closed:
            return
        if self._waiting_bytes + len(line) > _WAITING_BYTES_MAX:
            self._dropped += 1
            return
        if self._dropped:
            line = b"(%d lines were dropped: nobody read them)\n%s" % (self._dropped, line)
            self._dropped = 0
        for start in range(0, len(line), _CHUNK_BYTES):
            self._waiting.append(line[start : start + _CHUNK_BYTES])
        self._waiting_bytes += len(line)
        self.flush()

    def flush(self, patience_ms: int = 0) -> None:
        """Writes what the stream takes now; waits up to `patience_ms` for each piece."""
        while self._waiting and self._poll.poll(patience_ms):
            piece = self._waiting.popleft()
            try:
                written = os.write(self.fd, piece)
            except OSError:  # the reader went away; the cluster does not
                self._closed = True
                self._waiting.clear()
                self._waiting_bytes = 0
                return
            self._waiting_bytes -= written
            if written < len(piece):
                self._waiting.appendleft(piece[written:])

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)


class Screen:
    """Lines and events. With `as_json`, events are JSON lines on stdout, for programs."""

    def __init__(self, *, as_json: bool, colour: bool, prefix: bool, out: int = 1, err: int = 2) -> None:
        self._as_json = as_json
        self._colour = colour
        self._prefix = prefix
        self._prefixes: dict[str, bytes] = {}
        self._width = 0
        self.out = Outlet(out)
        self.err = Outlet(err)

    def expect(self, names: list[str]) -> None:
        """Fixes width and colours of the prefixes."""
        self._width = max(map(len, names))
        for number, name in enumerate(names):
            text = f"{name:<{self._width}} | "
            if self._colour:
                text = f"\x1b[{_COLOURS[number % len(_COLOURS)]}m{text}\x1b[0m"
            self._prefixes[name] = text.encode() if self._prefix else b""

    def log(self, name: str, line: bytes) -> None:
        self.err.write(self._prefixes.get(name, b"") + line + b"\n")

    def event(self, sentence: str, /, **fields: object) -> None:
        """One piece of news: the sentence for people, the fields for programs."""
        if self._as_json:
            self.out.write(json.dumps({**fields, "sentence": sentence}).encode() + b"\n")
        else:
            self.out.write(sentence.encode() + b"\n")

    def child_event(self, name: str, sentence: str, /, **fields: object) -> None:
        """News about one child: among its log lines for people, an event for programs."""
        if self._as_json:
            self.event(f"{name} {sentence}", **fields)
        elif fields.get("event") not in {"started", "opened"}:
            self.err.write(self._prefixes.get(name, b"") + f"({name} {sentence})\n".encode())

    def watch(self, register: Callable[[Outlet], None]) -> None:
        for outlet in (self.out, self.err):
            register(outlet)

    def close(self) -> None:
        for outlet in (self.err, self.out):
            outlet.flush(patience_ms=200)

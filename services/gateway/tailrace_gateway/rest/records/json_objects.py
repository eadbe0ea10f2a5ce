"""JSON objects one after the other, cut out of bytes as they come. Pure.

It looks at brackets and strings alone: whether an object is JSON inside says who decodes it. So an object that is not
does no harm to the next one. Between objects there is white space or nothing.
"""

from __future__ import annotations

import re

DEPTH_MAX = 100
_TOKEN = re.compile(rb'["{}\[\]]')
_STRING = re.compile(rb'["\\]')
_OPEN_OBJECT = ord("{")
_SPACE = re.compile(rb"[ \t\r\n]*")


class JsonObjects:
    """What was fed and is no whole object yet; each object has object_bytes at most.

    `failure` says what is wrong once nothing can be told apart any more; what is fed then is dropped.
    """

    def __init__(self, object_bytes: int) -> None:
        self._object_bytes = object_bytes
        self._buffer = bytearray()
        self._scanned = 0
        self._depth = 0
        self._in_string = False
        self.failure: str | None = None

    @property
    def is_between(self) -> bool:
        """Whether no object is begun."""
        return not self._buffer

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the objects that are whole now."""
        self._buffer += data
        found = []
        while self.failure is None and (self._depth or self._begin()):
            end = self._end()
            if end is None:
                break
            found.append(bytes(self._buffer[:end]))
            del self._buffer[:end]
            self._scanned = 0
        if len(self._buffer) > self._object_bytes:
            self.failure = f"An object has {self._object_bytes} bytes at most."
        if self.failure is not None:
            self._buffer.clear()
        return found

    def _begin(self) -> bool:
        """Skips white space; False if no object follows yet."""
        found = _SPACE.match(self._buffer)
        del self._buffer[: found.end() if found else 0]
        if self._buffer and self._buffer[0] != _OPEN_OBJECT:
            self.failure = "Not JSON: an object begins with {."
        return bool(self._buffer) and self.failure is None

    def _end(self) -> int | None:
        """Where the object ends that the buffer begins with; goes on where it stopped for want of bytes."""
        buffer, at = self._buffer, self._scanned
        while found := (_STRING if self._in_string else _TOKEN).search(buffer, at):
            at = found.end()
            match buffer[at - 1]:
                case 0x22:  # "
                    self._in_string = not self._in_string
                case 0x5C:  # \, which hides what follows, here or in what comes next
                    at += 1
                case 0x7B | 0x5B:  # { [
                    self._depth += 1
                    if self._depth > DEPTH_MAX:
                        self.failure = f"More than {DEPTH_MAX} brackets deep."
                        return None
                case _:
                    self._depth -= 1
                    if not self._depth:
                        return at
        self._scanned = max(at, len(buffer))
        return None

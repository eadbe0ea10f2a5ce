"""What `tailrace up --json` says on its stdout, kept in order and waited for without polling."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import IO, Any

Event = dict[str, Any]


class ClusterDied(RuntimeError):
    """`tailrace up` ended while something was expected from it; the text holds its last words."""


class Events:
    """All events so far; a thread of its own reads the stream, waiters sleep on a condition."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._seen: list[Event] = []
        self._ended = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, args=(stream,), name="tailrace-events", daemon=True)
        self._reader.start()

    def __len__(self) -> int:
        return len(self._seen)

    def wait(self, wanted: Callable[[Event], bool], timeout_seconds: float, since: int = 0) -> Event:
        """The first event from number `since` on that is wanted. Raises TimeoutError, ClusterDied at the end."""
        with self._changed:
            found: Event | None = None

            def arrived() -> bool:
                nonlocal found, since
                while found is None and since < len(self._seen):
                    found = self._seen[since] if wanted(self._seen[since]) else None
                    since += 1
                return found is not None or self._ended

            if not self._changed.wait_for(arrived, timeout_seconds):
                raise TimeoutError(f"nothing of the kind within {timeout_seconds} s; last: {self._seen[-3:]}")
            if found is None:
                raise ClusterDied("tailrace up has ended")
            return found

    def close(self) -> None:
        """Returns when the stream has been read to its end."""
        self._reader.join()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                event = json.loads(line)
                with self._changed:
                    self._seen.append(event)
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

"""An event loop in a thread of its own: a notebook's thread runs one already, in which nothing may wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines for a caller that waits; the thread ends with the context."""

    def __enter__(self) -> BackgroundLoop:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tailrace-read", daemon=True)
        self._thread.start()
        return self

    def run(self, coroutine: Coroutine[None, None, T]) -> T:
        """Its result; Ctrl-C cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

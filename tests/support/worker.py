"""A thread that works from `with` to its end, beside what a test does to the cluster."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self


class Worker(ABC):
    """A subclass tells of what it has done by `_news`, and ends when `_stop` is set."""

    def __init__(self, name: str) -> None:
        self._news = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._close()

    @abstractmethod
    def _run(self) -> None:
        """Works until `_stop` is set."""

    @abstractmethod
    def _close(self) -> None:
        """Finishes what is under way and closes the client, once the thread has ended."""

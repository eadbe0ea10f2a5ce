"""Checks of PLAIN's passwords: PBKDF2 in one thread, and a bounded number that waits for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tailrace.access.refused import AuthenticationRefused
from tailrace.access.sasl import WRONG_PASSWORD

MAX_WAITING: Final = 256  # each takes some milliseconds
MAX_OF_ADDRESS: Final = 32


class PasswordChecks:
    """Those of one listener's clients."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: Counter[str] = Counter()  # by address

    async def run(self, check: Callable[[], bool], client_host: str) -> bool:
        """The check's result. Raises AuthenticationRefused, as for a wrong password, where too many wait."""
        waiting = self._waiting
        if waiting[client_host] >= MAX_OF_ADDRESS:
            self._refuse(f"{waiting[client_host]} checks of passwords of this address wait")
        if waiting.total() >= MAX_WAITING:
            self._refuse(f"{MAX_WAITING} checks of passwords wait")
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "password")
        waiting[client_host] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, check)
        finally:
            waiting[client_host] -= 1
            if not waiting[client_host]:
                del waiting[client_host]

    def _refuse(self, why: str) -> None:
        raise AuthenticationRefused(WRONG_PASSWORD) from AuthenticationRefused(why)

    def close(self) -> None:
        """Ends the thread; checks that wait for it are not done."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

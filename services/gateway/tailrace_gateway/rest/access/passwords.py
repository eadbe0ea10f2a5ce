"""Passwords of users, checked against their SCRAM credentials.

A check is PBKDF2, some milliseconds of a processor, in a thread and one at a time. A password that was right is
remembered as a keyed hash until the user's credential changes, so that each request of a program does not pay again.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import OrderedDict
from typing import Final, NamedTuple

from tailrace.access.plain import MAX_BYTES
from tailrace.access.sasl import Credentials, PasswordCheck
from tailrace.access.scram import ScramCredential

MAX_REMEMBERED: Final = 1_000


class _Right(NamedTuple):
    """A password that was right for a credential."""

    credential: ScramCredential
    digest: bytes


class Passwords:
    """`key` is random, and of this process alone."""

    def __init__(self, credentials: Credentials, key: bytes) -> None:
        self._credentials = credentials
        self._key = key
        self._remembered: OrderedDict[str, _Right] = OrderedDict()  # by user, the least recently used first
        self._one_at_a_time = asyncio.Semaphore(1)
        self.checked_count = 0  # by PBKDF2

    async def are_right(self, user: str, password: str) -> bool:
        """Whether this is the user's password. For an unknown user it takes as long."""
        if not user or not password or max(len(user.encode()), len(password.encode())) > MAX_BYTES:
            return False
        found = self._credentials.find(user, None)
        digest = hashlib.blake2b(f"{user}\0{password}".encode(), key=self._key).digest()
        remembered = self._remembered.get(user)
        if remembered is not None and found.known and remembered.credential == found.credential:
            if hmac.compare_digest(remembered.digest, digest):
                self._remembered.move_to_end(user)
                return True
        else:
            self._remembered.pop(user, None)
        right = await self._check(PasswordCheck(password, found))
        if right:
            self._remember(user, _Right(found.credential, digest))
        return right

    async def _check(self, check: PasswordCheck) -> bool:
        """A thread cannot be cancelled: the next one waits for its end, whatever becomes of the request."""
        await self._one_at_a_time.acquire()
        self.checked_count += 1
        running = asyncio.get_running_loop().run_in_executor(None, check.run)
        running.add_done_callback(lambda _: self._one_at_a_time.release())
        return await asyncio.shield(running)

    def _remember(self, user: str, right: _Right) -> None:
        self._remembered[user] = right
        self._remembered.move_to_end(user)
        if len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)

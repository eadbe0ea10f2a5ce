"""Leases of several quota services in one Redis: one script, one round trip for a gateway's demands.

Where Redis does not answer in time nobody is given a lease: `quota.unavailable` holds at the gateways until it does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from random import Random
from typing import Any
from urllib.parse import urlsplit

import redis.asyncio
from redis.exceptions import RedisError
from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.quota.entity import ClientQuotas
from tailrace.quota.leases import Demand, Entry, Gateway, Grant, Holders
from tailrace.quota.shared import VERSION_CHARS, ContendedError, SharedLeases, StoreAnswer, Write
from tailrace_quota.store.port import StoreUnavailable

SCRIPT = """
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local since = redis.call('GET', KEYS[1])
if not since then
  since = now
  redis.call('SET', KEYS[1], since)
end
local answer = {now, since}
for i = 2, #KEYS do
  local present = redis.call('GET', KEYS[i]) or ''
  if since == ARGV[1] and string.sub(present, 1, tonumber(ARGV[3])) == ARGV[2 * i] then
    redis.call('SET', KEYS[i], ARGV[2 * i + 1], 'PX', ARGV[2])
    answer[i + 1] = {}
  else
    answer[i + 1] = {present}
  end
end
return answer
"""
"""KEYS: since when bookings are kept, then the bookings. ARGV: that since, how many ms a booking is kept, the length of
a version; then for each booking the version that is expected, and the text. Answers the time, since, and for each
booking nothing where it was written, else what is there. MemoryBookings is the same in Python."""


class RedisStore:
    """A LeaseStore. One exchange at a time, so that a service's own gateways do not contend with each other."""

    def __init__(
        self,
        url: str,
        lease_ms: float,
        max_entries: int,
        *,
        clock: Clock,
        random: Random,
        log: FilteringBoundLogger,
    ) -> None:
        """Raises ValueError where the URL is none of Redis."""
        self._timeout_ms = lease_ms / 4  # a gateway waits twice as long for us
        wait_s = self._timeout_ms / 1000
        self._redis: Any = redis.asyncio.Redis.from_url(
            url, socket_timeout=wait_s, socket_connect_timeout=wait_s, retry=None, decode_responses=True
        )
        self._script = self._redis.register_script(SCRIPT)
        self._leases = SharedLeases(
            lease_ms, max_entries, lambda: f"{random.getrandbits(4 * VERSION_CHARS):0{VERSION_CHARS}x}"
        )
        self._clock = clock
        self._log = log
        self._where = _without_password(url)
        self._ahead_ms = 0.0  # of our clock, by Redis's
        self._lock = asyncio.Lock()
        self.cluster_id = ""  # several clusters may have one Redis
        self.available = True
        self.round_trips = 0

    async def acquire(
        self, gateway: Gateway, demands: Sequence[Demand], quotas: ClientQuotas, holders: Holders, now_ms: float
    ) -> list[Grant]:
        """Raises StoreUnavailable when Redis does not answer in time, or refuses."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000), self._lock:
                grants = await self._acquire(gateway, demands, quotas, holders)
        except (RedisError, OSError, TimeoutError, ContendedError) as failed:
            why = str(failed) or type(failed).__name__
            if self.available:
                self._log.warning("no lease store", url=self._where, why=why)
            self.available = False
            raise StoreUnavailable(why) from failed
        if not self.available:
            self._log.info("lease store again", url=self._where)
        self.available = True
        return grants

    def clients(self) -> int:
        return len(self._leases)

    async def close(self) -> None:
        """Closes the connections."""
        await self._redis.aclose()

    async def _acquire(
        self, gateway: Gateway, demands: Sequence[Demand], quotas: ClientQuotas, holders: Holders
    ) -> list[Grant]:
        one = self._leases.begin(gateway, demands, quotas, holders)
        while True:
            writes = one.writes(self._clock.monotonic_ms() + self._ahead_ms)
            if not writes:
                return one.grants
            if one.take(await self._exchange(writes)):
                return one.grants

    async def _exchange(self, writes: Sequence[Write]) -> StoreAnswer:
        prefix = f"tailrace:{{{self.cluster_id}}}:quota"  # one slot of a Redis cluster
        keys = [f"{prefix}:since", *(f"{prefix}:{_name(write.entry)}" for write in writes)]
        leases = self._leases
        arguments: list[Any] = [leases.since_ms, round(leases.kept_ms), VERSION_CHARS]
        for write in writes:
            arguments += (write.expected, write.text)
        self.round_trips += 1
        asked_ms = self._clock.monotonic_ms()
        now, since, *present = await self._script(keys=keys, args=arguments)
        self._ahead_ms = float(now) - (asked_ms + self._clock.monotonic_ms()) / 2
        return StoreAnswer(float(now), since, [texts[0] if texts else None for texts in present])


def _name(entry: Entry) -> str:
    account, kind = entry
    return f"{kind.name.lower()}:{json.dumps(account, separators=(',', ':'))}"


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()

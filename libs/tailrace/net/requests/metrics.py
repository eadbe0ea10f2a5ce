"""Requests of a role by API: how many, and how long they took, in the words of Kafka's RequestMetrics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace.wire.apis import ApiKey

API_KEYS: Final = 128
BOUNDS_MS: Final = (0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
_BOUNDS_TEXT: Final = (*(str(bound_ms / 1000) for bound_ms in BOUNDS_MS), "+Inf")


class Turn:
    """When requests that were handled together had been read, began and waited; in milliseconds of the monotonic clock.

    ended_ms is 0 until the turn is over.
    """

    __slots__ = ("began_ms", "ended_ms", "read_ms")

    def __init__(self, read_ms: float, began_ms: float) -> None:
        self.read_ms, self.began_ms, self.ended_ms = read_ms, began_ms, 0.0


class Histogram:
    """Times of one API: counts by bucket, the last one without a bound, and their sum in milliseconds."""

    __slots__ = ("buckets", "sum_ms")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS_MS) + 1)
        self.sum_ms = 0.0

    def observe(self, time_ms: float) -> None:
        """Counts one time."""
        self.buckets[bisect_left(BOUNDS_MS, time_ms)] += 1
        self.sum_ms += time_ms


class Histograms(dict[int, Histogram]):
    """By API key; one is made when its first request is answered."""

    def __missing__(self, api_key: int) -> Histogram:
        made = self[api_key] = Histogram()
        return made


class RequestMetrics(Collector):
    """The times of all connections of a listener; now_ms: a monotonic clock in milliseconds."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self.now_ms = now_ms
        self.counts = [0] * API_KEYS  # requests by API key
        self.total = Histograms()
        self.queue = Histograms()  # of requests that had to wait for their turn
        self.local = Histograms()  # of requests that were not answered in their turn
        self.remote = Histograms()

    def register(self, registry: CollectorRegistry) -> RequestMetrics:
        """Itself, shown from now on."""
        registry.register(self)
        return self

    def observe(self, api_key: int, turn: Turn, now_ms: float) -> None:
        """A request of a turn is answered."""
        self.total[api_key].observe(now_ms - turn.read_ms)
        if turn.began_ms > turn.read_ms:
            self.queue[api_key].observe(turn.began_ms - turn.read_ms)
        if turn.ended_ms:
            self.local[api_key].observe(turn.ended_ms - turn.began_ms)
            self.remote[api_key].observe(now_ms - turn.ended_ms)

    def collect(self) -> Iterator[Metric]:
        """Reads everything now."""
        requests = CounterMetricFamily("tailrace_requests", "Requests of clients by API.", labels=["request"])
        for api_key, count in enumerate(self.counts):
            if count:
                requests.add_metric([_name(api_key)], count)
        yield requests
        yield _family("total", "Time from the read of a request until its answer is written.", self.total)
        yield _family("queue", "Of it, until a request that waits for its turn has it.", self.queue)
        yield _family("local", "Of it, until a request that waits begins to.", self.local)
        yield _family("remote", "Of it, until what a request waits for has come.", self.remote)

    def describe(self) -> list[Metric]:
        """Nothing ahead of time."""
        return []


def _name(api_key: int) -> str:
    return ApiKey(api_key).name.title().replace("_", "")


def _family(stage: str, text: str, histograms: Histograms) -> HistogramMetricFamily:
    family = HistogramMetricFamily(f"tailrace_request_{stage}_time_seconds", text, labels=["request"])
    for api_key, histogram in sorted(histograms.items()):
        counts = zip(_BOUNDS_TEXT, accumulate(map(float, histogram.buckets)), strict=True)
        family.add_metric([_name(api_key)], [*counts], histogram.sum_ms / 1000)
    return family

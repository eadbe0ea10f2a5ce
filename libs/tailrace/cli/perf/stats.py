"""Rates and latencies of a run, as ProducerPerformance of Kafka's tools counts them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

_SAMPLES_MAX: Final = 500_000
_MB: Final = 1024 * 1024
_PERCENTILES: Final = (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99), ("p999_ms", 0.999))


class Latencies:
    """Latencies of records; of very many every so manieth is kept for the percentiles."""

    def __init__(self, expected: int) -> None:
        self._every = -(-expected // min(max(expected, 1), _SAMPLES_MAX)) or 1
        self._samples = array("d")
        self._count = 0
        self._total_ms = 0.0
        self._max_ms = 0.0

    def add(self, latency_ms: float) -> None:
        """Counts one record."""
        if self._count % self._every == 0:
            self._samples.append(latency_ms)
        self._count += 1
        self._total_ms += latency_ms
        self._max_ms = max(self._max_ms, latency_ms)

    def summary(self) -> dict[str, float]:
        """avg, max and percentiles in milliseconds; nothing for no record."""
        if not self._count:
            return {}
        ordered = sorted(self._samples)
        percentiles = {name: _percentile(ordered, share) for name, share in _PERCENTILES}
        return {"avg_ms": self._total_ms / self._count, "max_ms": self._max_ms, **percentiles}


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class MeasuredRun(NamedTuple):
    """What was done in which time; cpu_s: of this process."""

    records: int
    size_bytes: int
    wall_s: float
    cpu_s: float

    @property
    def records_per_second(self) -> float:
        """Over the whole run."""
        return self.records / self.wall_s if self.wall_s > 0 else 0.0

    @property
    def mb_per_second(self) -> float:
        """MB are 1,048,576 bytes, as for Kafka's tools."""
        return self.size_bytes / _MB / self.wall_s if self.wall_s > 0 else 0.0

    @property
    def cpu_us_per_record(self) -> float:
        """What a record costs the client."""
        return self.cpu_s * 1e6 / self.records if self.records else 0.0


def in_words(what: str, run: MeasuredRun, latencies: dict[str, float]) -> str:
    """A line in the words of kafka-producer-perf-test."""
    rate = f"{run.records_per_second:.1f} records/sec ({run.mb_per_second:.2f} MB/sec)"
    line = f"{run.records} records {what}, {rate}"
    if latencies:
        line += f", {latencies['avg_ms']:.2f} ms avg latency, {latencies['max_ms']:.2f} ms max latency"
        line += ", " + ", ".join(f"{latencies[name]:.2f} ms {share * 100:g}th" for name, share in _PERCENTILES)
    return f"{line}."


def of_client(library: str, run: MeasuredRun) -> str:
    """What the client itself costs, which bounds what it can measure."""
    cost_us = run.cpu_us_per_record
    line = f"The client ({library}) takes {cost_us:.1f} µs of a core for each record"
    return f"{line}, so it does not measure more than {1e6 / cost_us:.0f} records/sec." if cost_us else f"{line}."


def data(run: MeasuredRun, latencies: dict[str, float], library: str) -> dict[str, object]:
    """The same for programs."""
    return {
        "records_count": run.records,
        "size_bytes": run.size_bytes,
        "seconds": run.wall_s,
        "records_per_second": run.records_per_second,
        "mb_per_second": run.mb_per_second,
        **({"latency": latencies} if latencies else {}),
        "client": library,
        "client_us_per_record": run.cpu_us_per_record,
    }

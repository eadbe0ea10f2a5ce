"""`tailrace perf produce`: kafka-python's producer, and when each record was acknowledged."""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64encode
from functools import partial
from importlib.metadata import version
from typing import Final

import typer

from tailrace.cli.daily.connection import say
from tailrace.cli.daily.deadline import Deadline
from tailrace.cli.daily.records.producer import in_words, kafka_producer
from tailrace.cli.perf.stats import Latencies, MeasuredRun
from tailrace.clock import Clock
from tailrace.processor_time import process_time_s
from tailrace.runtime.clock import SystemClock

_PAYLOADS: Final = 100
_REPORT_MS: Final = 5_000
_PAUSE_MS: Final = 2
_BATCH_BYTES: Final = 65_536
_LINGER_MS: Final = 5


class _Acknowledged:
    """Counts answers in the producer's thread."""

    def __init__(self, expected: int, clock: Clock) -> None:
        self._clock = clock
        self.latencies = Latencies(expected)
        self.count = 0
        self.failures = 0
        self.first = ""

    def written(self, sent_ms: float, _metadata: object) -> None:
        self.count += 1
        self.latencies.add(self._clock.monotonic_ms() - sent_ms)

    def refused(self, error: BaseException) -> None:
        self.failures += 1
        self.first = self.first or in_words(error)


def payloads(record_size: int) -> list[bytes]:
    """Some values of random letters: a compressor finds little in them."""
    return [b64encode(secrets.token_bytes(record_size))[:record_size] for _ in range(_PAYLOADS)]


def due(number: int, throughput: float, since_ms: float) -> bool:
    """Whether the next record may go at a rate; a rate of 0 or less is none."""
    return throughput <= 0 or number * 1000 < throughput * since_ms


def produced(
    bootstrap: str | None,
    topic: str,
    *,
    num_records: int,
    record_size: int,
    throughput: float,
    acks: str,
    compression: str,
) -> tuple[MeasuredRun, dict[str, float], str]:
    """The run, its latencies and the library. Ends the command with status 1 where records were refused."""
    values = payloads(record_size)
    clock = SystemClock()
    deadline = Deadline(clock, lasting=True)
    seen = _Acknowledged(num_records, clock)
    options: dict[str, object] = {
        "acks": acks if acks == "all" else int(acks),
        "linger_ms": _LINGER_MS,
        "batch_size": _BATCH_BYTES,
        "compression_type": None if compression == "none" else compression,
        "max_request_size": max(1 << 20, record_size * 2),
    }
    try:
        with asyncio.Runner() as runner, kafka_producer(bootstrap, **options) as producer:
            begun_ms, begun_cpu_s = clock.monotonic_ms(), process_time_s()
            reported_ms = begun_ms
            for number in range(num_records):
                now_ms = clock.monotonic_ms()
                while not due(number, throughput, now_ms - begun_ms):
                    deadline.check("records are written")
                    runner.run(clock.sleep(_PAUSE_MS))
                    now_ms = clock.monotonic_ms()
                sent = producer.send(topic, value=values[number % _PAYLOADS])
                sent.add_callback(partial(seen.written, now_ms))
                sent.add_errback(seen.refused)
                if now_ms - reported_ms >= _REPORT_MS:
                    reported_ms = now_ms
                    deadline.check("records are written")
                    rate = seen.count * 1000 / (now_ms - begun_ms)
                    say(f"{seen.count} records sent, {rate:.1f} records/sec.", err=True)
            producer.flush()
            wall_s, cpu_s = (clock.monotonic_ms() - begun_ms) / 1000, process_time_s() - begun_cpu_s
    except (ValueError, AssertionError) as wrong:
        raise typer.BadParameter(f"kafka-python: {wrong}") from None
    if seen.failures:
        say(f"{seen.failures} of {num_records} records were not written to {topic}: {seen.first}", err=True)
        raise typer.Exit(1)
    run = MeasuredRun(seen.count, seen.count * record_size, wall_s, cpu_s)
    return run, seen.latencies.summary(), f"kafka-python {version('kafka-python')}"

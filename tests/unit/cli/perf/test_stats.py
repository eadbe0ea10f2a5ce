"""Rates and latencies, as Kafka's tools count them."""

from __future__ import annotations

from tailrace.cli.perf.producing import due, payloads
from tailrace.cli.perf.stats import Latencies, MeasuredRun, data, in_words, of_client


def test_latencies_have_an_average_a_maximum_and_percentiles() -> None:
    latencies = Latencies(1_000)
    for number in range(1_000):
        latencies.add(float(number))
    assert latencies.summary() == {
        "avg_ms": 499.5,
        "max_ms": 999.0,
        "p50_ms": 500.0,
        "p95_ms": 950.0,
        "p99_ms": 990.0,
        "p999_ms": 999.0,
    }
    assert Latencies(0).summary() == {}


def test_of_very_many_records_a_sample_is_kept_and_all_are_counted() -> None:
    latencies = Latencies(2_000_000)
    for number in range(1_000_000):
        latencies.add(float(number % 100))
    found = latencies.summary()
    assert (found["avg_ms"], found["max_ms"], found["p50_ms"]) == (49.5, 99.0, 48.0)


def test_a_run_is_said_in_the_words_of_kafkas_tool() -> None:
    run = MeasuredRun(1_000, 2 * 1024 * 1024, 2.0, 1.0)
    assert in_words("read", run, {}) == "1000 records read, 500.0 records/sec (1.00 MB/sec)."
    latencies = Latencies(1)
    latencies.add(3.0)
    said = in_words("sent", run, latencies.summary())
    assert said.endswith(
        "3.00 ms avg latency, 3.00 ms max latency, 3.00 ms 50th, 3.00 ms 95th, 3.00 ms 99th, 3.00 ms 99.9th."
    )
    assert data(run, {}, "x")["records_per_second"] == 500.0


def test_what_the_client_costs_bounds_what_it_measures() -> None:
    said = of_client("x", MeasuredRun(1_000, 1, 2.0, 0.05))
    assert (
        said
        == "The client (x) takes 50.0 µs of a core for each record, so it does not measure more than 20000 records/sec."
    )
    assert of_client("x", MeasuredRun(0, 0, 1.0, 0.1)) == "The client (x) takes 0.0 µs of a core for each record."
    assert MeasuredRun(0, 0, 0.0, 0.0).records_per_second == 0


def test_records_are_paced_and_have_their_size() -> None:
    assert due(99, 100, 1_000) and not due(100, 100, 1_000)
    assert due(10**9, -1, 0)
    assert {len(value) for value in payloads(17)} == {17}

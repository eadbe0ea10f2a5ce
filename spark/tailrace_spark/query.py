"""Runs streaming queries to their end: with progress on the console, and a stop in order at SIGTERM and Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tailrace_spark.progress import QueryProgress


def run_to_end(spark: SparkSession, say: Callable[[str], None], *start: Callable[[], StreamingQuery]) -> None:
    """Starts the queries, returns when all have ended or a signal came. Raises what ended the first that failed."""
    listener = QueryProgress(say)
    spark.streams.addListener(listener)
    queries = [begin() for begin in start]
    try:
        with stopped_by_signal(spark):
            for query in queries:
                query.awaitTermination()
    finally:
        for query in queries:
            query.stop()
        listener.wait_for_ends(len(queries))
        spark.streams.removeListener(listener)
        say("total: " + ", ".join(f"{count:,} {name}" for name, count in sorted(listener.totals.items())))


@contextmanager
def stopped_by_signal(spark: SparkSession) -> Iterator[None]:
    """SIGTERM and SIGINT stop all queries after their batch; only the main thread may listen for signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop_all() -> None:
        for query in spark.streams.active:
            query.stop()

    def stop(number: int, frame: Any) -> None:
        # Elsewhere: this thread is inside a call to the JVM, whose connection takes no second one.
        threading.Thread(target=stop_all, daemon=True).start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

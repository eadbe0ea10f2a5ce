"""`tailrace perf consume`: the reader of `tailrace consume`, counting."""

from __future__ import annotations

from typing import Final

from tailrace.cli.daily.nodes import Nodes
from tailrace.cli.perf.stats import MeasuredRun
from tailrace.processor_time import process_time_s
from tailrace.reading.reader import TopicReader
from tailrace.reading.start import EARLIEST, LATEST_TIMESTAMP

_WAIT_MS: Final = 500


def consumed(cluster: Nodes, topic: str, most: int) -> MeasuredRun:
    """Reads from the beginning until there were so many records, or to the end as it is now."""
    reader = TopicReader(cluster.exchange, cluster.clock, topic, patience_ms=cluster.deadline.patience_ms)
    records = size_bytes = 0
    try:
        reader.assign(cluster.run(reader.find(EARLIEST, until=LATEST_TIMESTAMP)))
        begun_ms, begun_cpu_s = cluster.clock.monotonic_ms(), process_time_s()
        while not reader.done and records < most:
            cluster.deadline.check("records")
            for _, record in cluster.run(reader.poll(_WAIT_MS)):
                records += 1
                size_bytes += len(record.key or b"") + len(record.value or b"")
                if records == most:
                    break
        wall_s, cpu_s = (cluster.clock.monotonic_ms() - begun_ms) / 1000, process_time_s() - begun_cpu_s
    finally:
        cluster.run(reader.close())
    return MeasuredRun(records, size_bytes, wall_s, cpu_s)

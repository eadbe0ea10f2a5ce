"""What every role shows of its process: its version, and how busy its event loop is."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace import __version__
from tailrace.processor_time import main_thread_time_s


class ProcessMetrics(Collector):
    """The rate of event_loop_busy_seconds_total is the busy share: at 1 the loop has no time left, and clients wait."""

    def collect(self) -> Iterator[Metric]:
        """Reads everything now."""
        build = GaugeMetricFamily("tailrace_build_info", "1, with the version.", labels=["version", "python"])
        build.add_metric([__version__, platform.python_version()], 1)
        yield build
        yield CounterMetricFamily(
            "tailrace_event_loop_busy_seconds", "Processor time of the event loop.", value=main_thread_time_s()
        )

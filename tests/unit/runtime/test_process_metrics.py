"""What every role shows of its process."""

import threading

from prometheus_client import CollectorRegistry

from tailrace import __version__
from tailrace.processor_time import thread_time_ms
from tailrace.runtime.process_metrics import ProcessMetrics


def shown(name: str) -> float:
    registry = CollectorRegistry()
    registry.register(ProcessMetrics())
    value = registry.get_sample_value(name)
    assert value is not None
    return value


def test_the_work_of_the_main_thread_is_shown_from_any_thread_and_that_of_others_is_not() -> None:
    seen: list[float] = []

    def read() -> None:
        until_ms = thread_time_ms() + 50  # work of its own, which is not the event loop's
        while thread_time_ms() < until_ms:
            pass
        seen.append(shown("tailrace_event_loop_busy_seconds_total"))

    before_ms = thread_time_ms()
    reader = threading.Thread(target=read)
    reader.start()
    reader.join()
    assert before_ms / 1000 <= seen[0] <= thread_time_ms() / 1000


def test_the_version_is_shown() -> None:
    registry = CollectorRegistry()
    registry.register(ProcessMetrics())
    versions = [
        sample.labels["version"]
        for metric in registry.collect()
        for sample in metric.samples
        if "version" in sample.labels
    ]
    assert versions == [__version__]

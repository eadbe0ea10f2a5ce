"""Work that does nothing but use processor time."""

from tailrace.processor_time import thread_time_ms


def spend(ms: float) -> None:
    """Uses that much processor time, however busy the machine is."""
    until = thread_time_ms() + ms
    while thread_time_ms() < until:
        pass

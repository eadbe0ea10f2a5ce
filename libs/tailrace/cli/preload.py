"""What several roles need, imported once before the forks; it is a third of the start, so it is kept small."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

# A library that one role alone needs is left to that child, which imports it while the others start on other cores.
MODULES = (
    "uvloop",
    "prometheus_client",
    "tailrace.config",
    "tailrace.runtime.role_instance",
    "tailrace.net.server",
    "tailrace.net.client",
    "tailrace.net.metadata.follower",
)


def preload(modules: Sequence[str] = MODULES) -> None:
    """Imports them, and no more of structlog and kafka-python than roles use."""
    from tailrace.runtime import logs

    logs.import_structlog()
    with kafka_without_clients():
        for name in modules:
            importlib.import_module(name)
        from tailrace.wire import messages

        messages.load_all()


@contextmanager
def kafka_without_clients() -> Iterator[None]:
    """Lets `kafka.protocol` be imported without `kafka`, whose __init__ loads all of its clients (80 ms, 9 MB).

    Afterwards `import kafka` works as ever; it finds the submodules that are loaded.
    """
    found = None if "kafka" in sys.modules else importlib.util.find_spec("kafka")
    if found is None or found.submodule_search_locations is None:
        yield
        return
    stand_in = ModuleType("kafka")
    stand_in.__path__ = list(found.submodule_search_locations)
    stand_in.__spec__ = found
    sys.modules["kafka"] = stand_in
    try:
        yield
    finally:
        if sys.modules.get("kafka") is stand_in:
            del sys.modules["kafka"]

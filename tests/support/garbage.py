"""Sockets that the clients under test leave to the garbage collector: theirs to close, not ours to show."""

import gc
import warnings
from collections.abc import Iterable
from pathlib import Path

import pytest

TIMES = 5  # as pytest does: what one collection frees may hold more


def ignore_unclosed(items: Iterable[pytest.Item], folder: Path) -> None:
    """Marks a layer's tests: kafka-python leaves the sockets of refused connects, and a later test would be warned."""
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


def collect_quietly() -> None:
    """Frees them before pytest does at the end of a run: no test's mark covers them there, and the run would fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(TIMES):
            gc.collect()

"""SIGSTOP, and the proof that it holds: kill(2) returns before the threads of the process stand still."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

from tailrace.testing.admin import until

_AT_REST: Final = frozenset("TtZX")  # proc(5): stopped, traced, or ended


def stop_process(pid: int) -> None:
    """Sends SIGSTOP; returns when each thread stands still, so that nothing of the process happens after it.

    On a busy machine a thread that runs on another processor may otherwise still take and answer a request.
    """
    os.kill(pid, signal.SIGSTOP)
    until(lambda: all(_state(task) in _AT_REST for task in Path(f"/proc/{pid}/task").iterdir()), f"{pid} stands still")


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:  # this thread ended while the list was read
        return "X"

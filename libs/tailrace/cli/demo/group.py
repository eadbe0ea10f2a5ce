"""The consumer group seen from the job: three reader processes and what they report."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tailrace.cli.demo.tally import Tally

MEMBERS = 3


class DemoGroup:
    """Starts the members; waits are on one condition that every report notifies."""

    def __init__(self, bootstrap: str, topic: str, group: str, run: str) -> None:
        command = [sys.executable, "-m", "tailrace.cli.demo.reader", bootstrap, topic, group, run]
        self.tallies = [Tally()] * MEMBERS
        self.assigned: list[list[int]] = [[] for _ in range(MEMBERS)]
        self._ended = 0
        self._changed = threading.Condition()
        self._processes = [
            # A session of its own: Ctrl-C ends the job, which then lets its members leave the group.
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
            for _ in range(MEMBERS)
        ]
        self._threads = [
            threading.Thread(target=self._listen, args=(number,), daemon=True) for number in range(MEMBERS)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes:
            if process.stdin:
                process.stdin.close()  # it commits and leaves the group
        for process in self._processes:
            process.wait()
        for thread in self._threads:
            thread.join()

    @property
    def total(self) -> Tally:
        total = Tally()
        for tally in self.tallies:
            total = total.merged(tally)
        return total

    def wait_for(self, state: Callable[[], bool], timeout_seconds: float, on_change: Callable[[], None]) -> bool:
        """Whether the state came true in time; `on_change` runs after every report. Raises RuntimeError if one died."""

        def look() -> bool:
            on_change()
            if self._ended:
                raise RuntimeError("a reader ended; its words are above")
            return state()

        with self._changed:
            return self._changed.wait_for(look, timeout_seconds)

    def _listen(self, number: int) -> None:
        stream = self._processes[number].stdout
        assert stream
        with stream:
            for line in stream:
                report = json.loads(line)
                with self._changed:
                    if "assigned" in report:
                        self.assigned[number] = report["assigned"]
                    if "tally" in report:
                        self.tallies[number] = Tally(*report["tally"])
                    self._changed.notify_all()
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

"""A command cut short at its n-th effect on the disk: killed before it, or told that it failed.

`Commands` runs one child under a preloaded library (faults/effects.c), which forks for each command, so that a command
takes hundredths of a second and every one of its effects can be tried.
"""

from __future__ import annotations

import ctypes
import importlib
import io
import json
import os
import subprocess
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from typer.main import get_command

from support.slow_sync import build
from tailrace.cli.daily import app

SOURCE = Path(__file__).parent / "faults" / "effects.c"
KILLED, RAISED = -9, 99
ALL = 1 << 30
NOWHERE = "/nowhere/at/all"
IMPORTED = ("sqlite3", "tailrace_controller.app", "tailrace_controller.store")  # once, not in every fork


class Done(NamedTuple):
    """How a command ended: its status, -9 where it was killed; what it said; how many effects it had or began."""

    status: int
    said: str
    effects: int


class Commands:
    """Runs `tailrace` commands of the daily kind."""

    def __init__(self, folder: Path, below: Path) -> None:
        """Counts the effects below a folder; keeps its own files in another."""
        environ = {**os.environ, "LD_PRELOAD": str(build(SOURCE, folder)), "TERM": "dumb"}
        self._answer = folder / "answer"
        self._below = str(below)
        self._child = subprocess.Popen(
            [sys.executable, "-m", "support.effects"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
        )

    def run(self, *arguments: object, at: int = ALL, number: int = 0, lasts: bool = False, but: str = "") -> Done:
        """Kills the command before its effect `at`, or fails that with the errno `number`, and all later if lasts.

        Effects on files with `but` in their path are not counted.
        """
        assert self._child.stdin is not None and self._child.stdout is not None
        self._answer.unlink(missing_ok=True)
        order = {
            "arm": [at, number, lasts, self._below, but],
            "to": str(self._answer),
            "arguments": [*map(str, arguments)],
        }
        self._child.stdin.write(json.dumps(order) + "\n")
        self._child.stdin.flush()
        status = int(self._child.stdout.readline())
        if status < 0:
            return Done(status, "", at)
        said, effects = json.loads(self._answer.read_text())
        return Done(status, said, effects)

    def __enter__(self) -> Commands:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.communicate()


def serve() -> None:
    """The child: forks for each order on its standard input."""
    library = ctypes.CDLL(None)
    for name in IMPORTED:
        importlib.import_module(name)
    command = get_command(app)
    warm_up(command)
    for line in sys.stdin:
        order = json.loads(line)
        if not (pid := os.fork()):
            obey(command, library, order)
        _, state = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(state), flush=True)


def warm_up(command: Any) -> None:
    """Refused commands, for what a command imports as it runs: in every fork that was half of its time."""
    for words in (["import-kafka", NOWHERE, "--data", NOWHERE], ["export-kafka", NOWHERE, NOWHERE]):
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), suppress(SystemExit):
            command.main(words)


def obey(command: Any, library: ctypes.CDLL, order: dict[str, Any]) -> None:
    """Runs a command in a fork and ends that with its status, RAISED where it raised."""
    said, status, effects = io.StringIO(), RAISED, 0
    at, number, lasts, below, but = order["arm"]
    try:
        with redirect_stdout(said), redirect_stderr(said):
            library.effects_arm(at, number, int(lasts), below.encode(), but.encode())
            try:
                command.main(order["arguments"])
            except SystemExit as ended:
                status = int(ended.code or 0)
    finally:
        effects = library.effects_seen()
        library.effects_arm(0, 0, 0, b"", b"")
        if status == RAISED:
            said.write(traceback.format_exc())
        Path(order["to"]).write_text(json.dumps([said.getvalue(), effects]))
        os._exit(status)


if __name__ == "__main__":
    serve()

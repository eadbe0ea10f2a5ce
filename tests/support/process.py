"""A child process whose output is kept in a file and watched for the line that says it is ready."""

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class Child:
    """One started program. `ready(line)` is asked for every line of its output until it says yes."""

    def __init__(
        self,
        command: Sequence[str],
        log_file: Path,
        ready: Callable[[str], bool],
        *,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.log_file = log_file
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, **(environ or {})},
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._news: queue.Queue[bool] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(ready,), daemon=True)
        self._reader.start()

    def _read(self, ready: Callable[[str], bool]) -> None:
        assert self.process.stdout is not None
        told = False
        with self.process.stdout, self.log_file.open("w", encoding="utf-8") as log:
            for line in self.process.stdout:
                log.write(line)
                log.flush()
                if not told and ready(line):
                    told = True
                    self._news.put(True)
        self._news.put(False)

    def wait_until_ready(self, timeout_s: float) -> None:
        """Returns at the ready line; raises with the last log lines when the program ends or stays silent."""
        try:
            if self._news.get(timeout=timeout_s):
                return
        except queue.Empty:
            self.stop()
        raise RuntimeError(f"{self.process.args!r} did not become ready:\n{self.tail()}")

    def tail(self, lines: int = 25) -> str:
        """The last lines that the program wrote."""
        return "\n".join(self.log_file.read_text(encoding="utf-8").splitlines()[-lines:])

    def ended(self) -> int:
        """Waits for the end of a program that was killed; answers its exit code."""
        code = self.process.wait()
        self._reader.join()
        return code

    def stop(self, timeout_s: float = 20) -> int:
        """Ends the program with SIGTERM, then with SIGKILL to its whole session; answers its exit code."""
        self.process.terminate()
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            code = self.process.wait()
        self._reader.join()
        return code

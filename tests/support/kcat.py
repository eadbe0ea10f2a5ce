"""kcat, Debian's build on librdkafka 2.0, as a program."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

TIMEOUT_S = 90
INSTALL = "kcat: apt-get install -y kcat"


def missing() -> str | None:
    """The line that would install it; None when it is there."""
    return None if shutil.which("kcat") else INSTALL


@dataclass(frozen=True)
class Kcat:
    """kcat against one cluster."""

    bootstrap: str

    def command(self, *arguments: str) -> list[str]:
        """The command line, quiet, without telemetry of its own."""
        return ["kcat", "-b", self.bootstrap, "-q", *arguments]

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Runs it to its end."""
        command = self.command(*arguments)
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    def out(self, *arguments: str, stdin: str = "") -> str:
        """Runs it, checks that it succeeded, answers its output."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def metadata(self) -> Any:
        """The cluster as kcat sees it."""
        return json.loads(self.out("-L", "-J"))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts it and leaves it running."""
        return subprocess.Popen(
            self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
        )

"""Tailrace as a process tree of its own, started by its own command as a user would."""

import re
import sys
from pathlib import Path

from support.ports import HOST, free_ports
from support.process import Child

READY = re.compile(r"bootstrap", re.IGNORECASE)


class TailraceCluster:
    """`tailrace up` in a folder of its own, on ports of its own."""

    def __init__(self, folder: Path, brokers: int, settings: dict[str, str]) -> None:
        self.folder = folder
        self.brokers = brokers
        self.settings = settings
        first = free_ports(brokers + 1)
        self.port, self.admin_port = first, first + brokers
        self.bootstrap = f"{HOST}:{self.port}"
        self.child: Child | None = None

    def start(self) -> None:
        """Starts everything, returns when `up` says that all roles are ready."""
        command = [str(Path(sys.executable).with_name("tailrace")), "up", "--brokers", str(self.brokers)]
        command += ["--data", str(self.folder / "data"), "--listen", HOST, "--port", str(self.port)]
        command += ["--admin-port", str(self.admin_port)]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        self.child = Child(command, self.folder / "up.log", lambda line: READY.search(line) is not None)
        self.child.wait_until_ready(60)

    def stop(self) -> None:
        """Ends everything as Ctrl-C would."""
        if self.child is not None:
            self.child.stop()

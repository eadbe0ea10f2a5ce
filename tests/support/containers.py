"""One container started by the docker command: for what testcontainers hides, like exit codes and read-only roots."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support import docker_engine
from support.docker_engine import docker
from support.waiting import HUNG_S, until

_READY_S = 120


class Container:
    """A container of the image, running in the background."""

    def __init__(self, *arguments: str, options: tuple[str, ...] = (), image: str = docker_engine.TAILRACE) -> None:
        self.name = f"tailrace-test-{secrets.token_hex(4)}"
        docker("run", "-d", "--name", self.name, *options, image, *arguments)

    @property
    def state(self) -> dict[str, Any]:
        """Docker's: Status, ExitCode, Health."""
        found: dict[str, Any] = json.loads(docker("inspect", "-f", "{{json .State}}", self.name))
        return found

    def run(self, *command: str) -> str:
        """What a command prints inside; raises docker_engine.Unavailable where its status is not 0."""
        return docker("exec", self.name, *command)

    def log(self) -> str:
        """What it printed, errors too."""
        done = subprocess.run(("docker", "logs", self.name), capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    def healthy(self) -> None:
        """Returns when the image's own health check passes."""

        def is_healthy() -> bool:
            state = self.state
            assert state["Running"], f"{state} {self.log()}"
            status: str = state["Health"]["Status"]
            return status == "healthy"

        until(is_healthy, f"{self.name} is healthy", _READY_S)

    def stop(self) -> int:
        """As `docker stop` does: SIGTERM, and SIGKILL, which gives 137, to what did not hear. Returns the code."""
        docker("stop", "-t", str(HUNG_S), self.name)
        return int(self.state["ExitCode"])


@contextmanager
def running(*arguments: str, options: tuple[str, ...] = (), image: str = docker_engine.TAILRACE) -> Iterator[Container]:
    """Removed with its volumes at the end."""
    container = Container(*arguments, options=options, image=image)
    try:
        yield container
    finally:
        docker("rm", "-f", "-v", container.name)

"""A cluster of deploy/compose, started by docker-compose as a person would, and hurt by docker."""

from __future__ import annotations

import functools
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

from support import docker_engine
from support.commands import ROOT
from support.docker_engine import HELD, Unavailable, docker
from support.ports import free_ports
from support.waiting import until
from tailrace.testing import admin

CLUSTER = ("deploy/compose/cluster.yml", "tests/support/images/sessions.yml")
ONE_CONTAINER = ("deploy/compose/tailrace.yml",)
# These are other people's images and have no health check of ours.
WITHOUT_HEALTH = ("postgres", "redis", "address")
_START_S = 240
_HEAL_S = 120


@functools.cache
def _separator() -> str:
    """What stands between the parts of a container's name: another one since Compose 2."""
    done = subprocess.run(("docker-compose", "version", "--short"), capture_output=True, text=True, check=True)
    return "_" if done.stdout.startswith("1.") else "-"


class ComposeCluster:
    """`bootstrap` is its one address, on this machine."""

    def __init__(self, files: tuple[str, ...] = CLUSTER, image: str = docker_engine.TAILRACE) -> None:
        self._files = [word for file in files for word in ("-f", file)]
        self.project = f"tailrace-{docker_engine.TAG}-{Path(files[-1]).stem}"
        self.image = image  # of the services that the next command makes or changes
        port = free_ports(4)
        self.bootstrap = f"127.0.0.1:{port}"
        self._environ = {
            **os.environ,
            **docker_engine.environment(),
            "POSTGRES_PASSWORD": "ofPostgres",
            "REDIS_PASSWORD": "ofRedis",
            "TAILRACE_HOST": "127.0.0.1",
            "TAILRACE_PORT": str(port),
            "TAILRACE_PORT_1": str(port + 1),
            "TAILRACE_PORT_2": str(port + 2),
            "TAILRACE_ADMIN_PORT": str(port + 3),
        }
        self.admin = f"http://127.0.0.1:{port + 3}"

    def __enter__(self) -> Self:
        self.remove()  # what an earlier run was killed in the middle of
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def up(self) -> None:
        """Returns when every service is well."""
        self.compose("up", "-d", "--no-build")
        for service in self.services():
            self.wait_until_well(service, _START_S)

    def compose(self, *arguments: str) -> str:
        """What a docker-compose command prints."""
        done = self._compose(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _compose(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ("docker-compose", "-p", self.project, *self._files, *arguments)
        environ = {**self._environ, "TAILRACE_IMAGE": self.image}
        return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)

    def down(self, *options: str) -> None:
        """Its containers and networks go; an engine may keep an endpoint of a container for a moment."""

        def is_down() -> bool:
            done = self._compose("down", *options)
            assert done.returncode == 0 or HELD in done.stderr, done.stderr
            return done.returncode == 0

        until(is_down, f"{self.project} is down")

    def remove(self) -> None:
        """Everything of it, volumes too."""
        self.compose("kill")
        self.down("-v", "--remove-orphans")

    def services(self) -> list[str]:
        """All but the one that ends."""
        return [name for name in self.compose("config", "--services").split() if name != "secret"]

    def container(self, service: str) -> str:
        return _separator().join((self.project, service, "1"))

    def restarts(self, service: str) -> int:
        """How often Docker has started it again by itself."""
        return int(docker("inspect", "-f", "{{.RestartCount}}", self.container(service)))

    def is_well(self, service: str) -> bool:
        """Whether it runs and, where it is one of ours, is ready."""
        with suppress(Unavailable):
            if service in WITHOUT_HEALTH:
                return docker("inspect", "-f", "{{.State.Running}}", self.container(service)) == "true"
            docker("exec", self.container(service), "tailrace", "health", "--ready")
            return True
        return False

    def wait_until_well(self, service: str, timeout_s: float = _HEAL_S) -> None:
        """Returns when `is_well` says so."""
        until(lambda: self.is_well(service), f"{service} is well", timeout_s)

    def wait_until_replicated(self, topic: str) -> None:
        """Until each partition has all its replicas in sync."""

        def is_replicated() -> bool:
            with suppress(OSError, TimeoutError, admin.Refused):
                rows = admin.partitions(self.bootstrap, topic)
                return bool(rows) and all(len(row.isr_nodes) == len(row.replica_nodes) for row in rows)
            return False

        until(is_replicated, f"{topic} is in sync", _HEAL_S)

    def active_controller(self) -> str:
        """The service that decides now."""

        def found() -> str | None:
            for number in range(2):
                with suppress(Unavailable):
                    page = self.metrics(f"controller-{number}")
                    if "tailrace_active_controllers 1.0" in page:
                        return f"controller-{number}"
            return None

        return until(found, "a controller is active", _HEAL_S)

    def metrics(self, service: str) -> str:
        """The metrics page of one service, read inside its container."""
        read = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9100/metrics').read().decode())"
        return docker("exec", self.container(service), "/opt/tailrace/bin/python", "-c", read)

    # -- faults ---------------------------------------------------------------------------------------------------

    def crash(self, service: str) -> None:
        """SIGKILL of the service's process; the restart policy starts another."""
        docker("exec", self.container(service), "sh", "-c", "kill -9 -1 || true")

    def kill(self, service: str) -> None:
        """SIGKILL of the container, which stays down."""
        docker("kill", self.container(service))

    def start(self, service: str) -> None:
        docker("start", self.container(service))

    def pause(self, service: str) -> None:
        docker("pause", self.container(service))

    def resume(self, service: str) -> None:
        docker("unpause", self.container(service))

    def cut(self, service: str) -> None:
        """Takes its network away: whatever it had open hangs, and its name is not known any more."""
        docker("network", "disconnect", f"{self.project}_default", self.container(service))

    def mend(self, service: str) -> None:
        """The network is back, maybe with another IP address."""
        docker("network", "connect", "--alias", service, f"{self.project}_default", self.container(service))

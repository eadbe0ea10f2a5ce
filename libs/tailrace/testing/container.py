"""`TailraceContainer`: a cluster in one container, by the conventions of testcontainers."""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from typing import Any, Final, Self

from docker.errors import APIError
from testcontainers.core.config import ConnectionMode
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

_KAFKA: Final = 9092
_ADMIN: Final = 8080
_READY: Final = "Tailrace is ready after"
_START_SECONDS: Final = 120
_POLL_SECONDS: Final = 0.1
_TRIES: Final = 10
_LOWEST, _HIGHEST = 20_000, 32_000  # below what Linux gives to outgoing connections


class TailraceContainer(DockerContainer):
    """`with TailraceContainer() as tailrace:`, then any client at `tailrace.get_bootstrap_server()`.

    Node n is at the bootstrap port + n, so the container publishes a block of host ports, chosen before the start: no
    address has to be put in afterwards. Clients in other containers of the same network need `advertise=False`, and the
    network alias with port 9092; clients outside are then told an address that only Linux hosts reach.
    """

    def __init__(
        self,
        image: str = "tailrace",
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        advertise: bool = True,
        **kwargs: Any,
    ) -> None:
        """`settings` go to --set of `tailrace up`; further arguments are DockerContainer's."""
        super().__init__(image, **kwargs)
        self.brokers = brokers
        self._settings = dict(settings or {})
        self._advertise = advertise
        self.waiting_for(
            LogMessageWaitStrategy(_READY).with_startup_timeout(_START_SECONDS).with_poll_interval(_POLL_SECONDS)
        )

    def start(self) -> Self:
        """Returns when the cluster is ready. Another process may take a chosen port first: then others are chosen."""
        for _ in range(_TRIES - 1):
            try:
                return self._started()
            except APIError as error:
                if "port is already allocated" not in str(error) and "address already in use" not in str(error):
                    raise
                self.get_wrapped_container().remove(force=True, v=True)
        return self._started()

    def _started(self) -> Self:
        super().start()
        return self

    def _configure(self) -> None:
        """What testcontainers calls before it creates the container."""
        port = free_block(self.brokers)
        for node in range(self.brokers):
            self.with_bind_ports(_KAFKA + node, port + node)
        self.with_exposed_ports(_ADMIN)
        command = ["up", "--insecure", "--brokers", str(self.brokers), "--port", str(_KAFKA)]
        client = self.get_docker_client()
        if self._advertise and client.get_connection_mode() == ConnectionMode.docker_host:
            command += ["--advertise", f"{client.host()}:{port}"]
        for key, value in self._settings.items():
            command += ["--set", f"{key}={value}"]
        self.with_command(command)

    def get_bootstrap_server(self) -> str:
        """`host:port` for clients of this host."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(_KAFKA)}"

    def get_admin_url(self) -> str:
        """Of the REST API and the console."""
        return f"http://{self.get_container_host_ip()}:{self.get_exposed_port(_ADMIN)}"


def free_block(count: int) -> int:
    """The first of `count` ports of this host that nobody listens on now."""
    while True:
        first = random.randrange(_LOWEST, _HIGHEST - count)
        if all(_is_free(first + number) for number in range(count)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

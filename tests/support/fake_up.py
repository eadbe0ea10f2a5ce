"""`tailrace up` with tiny roles in place of the services: they listen, become ready, and die when they are told to."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tailrace.cli import up
from tailrace.config import Config
from tailrace.runtime.role import Environment, Role


class FakeRole:
    def __init__(self, addresses: dict[str, str]) -> None:
        self.ready = asyncio.Event()
        self.addresses = addresses


def fake_role(name: str) -> Role:
    """A role that fails to open while DIR/<role>-<id>.fails exists, and never is ready while .slow does.

    While .asks exists, it asks for the worker of tables, for which the extra is missing here.
    """

    @asynccontextmanager
    async def open_fake(config: Config, environment: Environment) -> AsyncIterator[FakeRole]:
        own = f"{name}-{config.node_id}"
        if (environment.data_dir / f"{own}.fails").exists():
            environment.log.error("cannot open", reason="told to fail")
            raise SystemExit(7)
        assert environment.run_dir is not None
        path = environment.run_dir / f"{own}.sock"
        server = await asyncio.start_unix_server(lambda _, writer: writer.close(), path)
        role = FakeRole({"internal": f"unix:{path}"})
        if name == "gateway":
            role.addresses["client"] = await listen(config)
        if not (environment.data_dir / f"{own}.slow").exists():
            role.ready.set()
        if (environment.data_dir / f"{own}.asks").exists():
            environment.ask_for("table")
        environment.log.info("opened", pid=os.getpid())
        yield role
        server.close()
        environment.log.info("closed")

    async def listen(config: Config) -> str:
        server = await asyncio.start_server(
            lambda _, writer: writer.close(), config.gateway_listen, config.gateway_port, reuse_port=True
        )
        return "{}:{}".format(*server.sockets[0].getsockname()[:2])

    return Role(name, open_fake)


if __name__ == "__main__":
    sys.modules["deltalake"] = None  # type: ignore[assignment]  # as where the extra is not installed
    sys.exit(
        up.main(
            sys.argv[1:],
            lambda name: lambda: fake_role(name),
            modules=("uvloop", "prometheus_client", "tailrace.config"),
        )
    )

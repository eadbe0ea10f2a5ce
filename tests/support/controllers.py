"""Controllers and followers in the test's own process, over real sockets and databases."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from prometheus_client import CollectorRegistry

from tailrace.config import Config
from tailrace.kafka.features import SUPPORTED
from tailrace.net.metadata.follower import MetadataFollower, open_metadata_follower
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.role import Environment
from tailrace.wire.messages import BrokerHeartbeatRequest, BrokerRegistrationRequest, CreateTopicsRequest
from tailrace_controller.app import open_controller
from tailrace_controller.role import ControllerRole

WAIT_MS = 60_000  # for a state, however busy the machine is


class Node:
    """A data directory and the services that a test opens on it."""

    def __init__(self, directory: Path, node_id: int = 0, settings: Mapping[str, str] | None = None) -> None:
        self.config = Config.load("controller", overrides={"node.id": str(node_id), **(settings or {})})
        self.environment = Environment(
            clock=SystemClock(),
            random=random.Random(7 + node_id),
            log=structlog.get_logger(),
            data_dir=directory,
            run_dir=directory / "run",
            boot_id="boot",
            registry=CollectorRegistry(),
        )
        self.directory = directory

    @asynccontextmanager
    async def controller(self) -> AsyncIterator[ControllerRole]:
        async with open_controller(self.config, self.environment) as role:
            await role.ready.wait()
            yield role

    def follower(self, name: str = "gateway-0") -> contextlib.AbstractAsyncContextManager[MetadataFollower]:
        return open_metadata_follower(self.config, self.environment, name)

    async def listen(self, name: str) -> asyncio.AbstractServer:
        """A listener that accepts: whoever probes sees that somebody is there."""
        return await asyncio.start_unix_server(lambda _, writer: writer.close(), str(self.directory / name))

    def registration(self, broker_id: int, incarnation: int, socket: str) -> BrokerRegistrationRequest:
        listener = BrokerRegistrationRequest.Listener(
            name="UNIX-boot", host=str(self.directory / socket), port=0, security_protocol=0
        )
        feature = BrokerRegistrationRequest.Feature
        features = [
            feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
            for name, levels in SUPPORTED.items()
        ]
        return BrokerRegistrationRequest(
            broker_id=broker_id, cluster_id="", incarnation_id=UUID(int=incarnation), listeners=[listener],
            features=features, rack=None, log_dirs=[],
        )  # fmt: skip


def heartbeat(broker_id: int, epoch: int, offset: int) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=offset, want_fence=False, want_shut_down=False
    )


async def live_broker(node: Node, follower: MetadataFollower, ask: Any = None, incarnation: int = 1) -> int:
    """Registers and unfences broker 0; returns its epoch."""
    ask = ask or follower.ask_controller
    registered = await ask(node.registration(0, incarnation, "broker.sock"), timeout_ms=WAIT_MS)
    epoch: int = registered.broker_epoch
    beat = await ask(heartbeat(0, epoch, epoch), timeout_ms=WAIT_MS)
    assert (beat.error_code, beat.is_fenced) == (0, False)
    return epoch


def creation(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    topics = [
        CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000)

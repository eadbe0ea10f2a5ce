"""Tailrace as single services: every role a process of its own, so a node that dies stays dead until it is told."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.nodes import START_S, Nodes
from support.ports import HOST, free_ports
from support.process import Child

OTHERS = ("controller", "coordinator", "quota", "gateway")


class TailraceNodes(Nodes):
    """Clients come to the gateway, whose node ports are `port` + n."""

    is_kafka = False

    def __init__(
        self,
        folder: Path,
        count: int = 3,
        *,
        settings: Mapping[str, str] | None = None,
        port: int = 0,
        gateways: int = 1,
        coordinators: int = 1,
    ) -> None:
        super().__init__(folder, count, port or free_ports(count), settings or {})
        instances = {"gateway": gateways, "coordinator": coordinators}
        self.services = [(role, n) for role in OTHERS for n in range(instances.get(role, 1))]
        # What a test adds to one node before it starts: a prefix of its command, more settings, more environment.
        self.prefixes: dict[str, Sequence[str]] = {}
        self.own_settings: dict[str, dict[str, str]] = {}
        self.environ: dict[str, dict[str, str]] = {}

    def start(self) -> None:
        """Starts all roles side by side: none waits for another."""
        started = [self.launch_role(role, number) for role, number in self.services]
        started += [self.launch(node) for node in self.ids]
        for child in started:
            child.wait_until_ready(START_S)

    def launch(self, node: int) -> Child:
        """Starts a broker."""
        return self.launch_role("broker", node)

    def launch_role(self, role: str, number: int = 0) -> Child:
        """Starts one service and returns at once."""
        name = f"{role}-{number}"
        settings = {
            "data.dir": str(self.folder),
            "node.id": str(number),
            "controller.quorum.bootstrap.servers": f"unix:{self.folder}/run/controller-0.sock",
            "gateway.listen": HOST,
            "gateway.port": str(self.port),
            "admin.port": "0",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            **({"broker.rack": f"r{number}"} if role == "broker" else {}),
            **self.settings,
            **self.own_settings.get(name, {}),
        }
        command = [*self.prefixes.get(name, ()), sys.executable, "-m", f"tailrace_{role}", "--log-format", "json"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        child = Child(command, self._log_file(name), _is_ready, environ=self.environ.get(name))
        self.children[name] = child
        return child

    def restart_role(self, role: str, number: int = 0) -> None:
        """Stops one service in order and starts it again; returns when it is ready."""
        self.children[f"{role}-{number}"].stop()
        self.launch_role(role, number).wait_until_ready(START_S)

    def _log_file(self, name: str) -> Path:
        lives = len(list(self.folder.glob(f"{name}.*.log")))
        return self.folder / f"{name}.{lives}.log"  # a file for each life


def _is_ready(line: str) -> bool:
    try:
        return bool(json.loads(line).get("event") == "ready")
    except (ValueError, AttributeError):
        return False

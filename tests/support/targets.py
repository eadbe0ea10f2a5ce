"""The clusters that every compat script runs against: Tailrace with one and three brokers, and Apache Kafka.

TARGET_<NAME>=host:port uses a running cluster instead of starting one.
"""

import os
import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.kafka_peer import KafkaPeer
from support.raw import REQUESTS, Raw
from tailrace.testing import Cluster

# On which way requests go through the gateway and the broker.
_RELAYED = {"gateway.handover": "false"}
WITHOUT_FAST_PATH = {"broker.fast.path": "false"}
WAYS = {
    "tailrace1r": _RELAYED,
    "tailrace1p": WITHOUT_FAST_PATH,
    "tailrace3": _RELAYED,
    "tailrace3p": _RELAYED | WITHOUT_FAST_PATH,
}
BROKERS = {
    "tailrace1": 1,
    "tailrace1r": 1,
    "tailrace1p": 1,
    "tailrace3": 3,
    "tailrace3h": 3,
    "tailrace3p": 3,
    "kafka": 1,
}
# Both must be told the same; what the scripts need is short group timers and nothing that waits.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "6",
    "log.cleaner.backoff.ms": "100",
}
# One Kafka broker keeps one copy; three brokers of ours would keep three (`up --brokers`).
LIKE_ONE_BROKER = {"default.replication.factor": "1", "min.insync.replicas": "1"}


@dataclass(frozen=True)
class Target:
    """One running cluster."""

    name: str
    host: str
    port: int
    folder: Path

    @property
    def bootstrap(self) -> str:
        """host:port of node 0."""
        return f"{self.host}:{self.port}"

    @property
    def brokers(self) -> int:
        """How many brokers it has."""
        return BROKERS[self.name]

    @property
    def is_kafka(self) -> bool:
        """True for Apache Kafka."""
        return self.name == "kafka"

    def raw(self, node: int = 0, **options: Any) -> Raw:
        """A raw connection to a node; at Tailrace node n is the gateway's port + n."""
        return Raw(self.host, self.port + node, **options)

    def ask(self, request: Any, version: int, node: int = 0) -> Any:
        """One request on a connection of its own."""
        with self.raw(node) as connection:
            return connection.ask(request, version)

    def log(self) -> str:
        """What all roles of a Tailrace cluster have logged."""
        return (self.folder / "up.log").read_text(errors="replace")

    def memory_bytes(self) -> int:
        """The memory of all roles of a Tailrace cluster together: the sum of their PSS."""
        pids = [int(file.read_text()) for file in (self.folder / "run").glob("*-*.pid")]
        assert pids, f"no pid files in {self.folder}/run"
        return sum(pss_bytes(pid) for pid in pids)

    def served(self) -> dict[int, tuple[int, int]]:
        """The version range of every API that it advertises."""
        answer = self.ask(REQUESTS[18](client_software_name="raw", client_software_version="1"), 3)
        return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


def pss_bytes(pid: int) -> int:
    """The process's proportional set size."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"no Pss of process {pid}")


class Targets:
    """Starts each cluster when it is first asked for, keeps it for the session."""

    def __init__(self) -> None:
        self._running: dict[str, Target] = {}
        self._stack = ExitStack()

    def get(self, name: str) -> Target:
        """The running cluster of that name."""
        if name not in self._running:
            self._running[name] = self._given(name) or self._start(name)
        return self._running[name]

    def _given(self, name: str) -> Target | None:
        address = os.environ.get(f"TARGET_{name.upper()}")
        if not address:
            return None
        host, _, port = address.rpartition(":")
        return Target(name, host, int(port), Path(tempfile.gettempdir()))

    def _start(self, name: str) -> Target:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        cluster: KafkaPeer | Cluster
        if name == "kafka":
            cluster = KafkaPeer(folder, SETTINGS)
        else:
            settings = SETTINGS if BROKERS[name] == 1 else SETTINGS | LIKE_ONE_BROKER
            cluster = Cluster(brokers=BROKERS[name], data_dir=folder, settings=settings | WAYS.get(name, {}))
        self._stack.callback(cluster.stop)
        cluster.start()
        host, _, port = cluster.bootstrap.rpartition(":")
        return Target(name, host, int(port), folder)

    def close(self) -> None:
        """Stops what was started."""
        self._stack.close()

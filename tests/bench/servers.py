"""What is measured against: Apache Kafka and Tailrace, each with its data on tmpfs in small recycled segments."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.kafka_nodes import KafkaNodes
from support.kafka_peer import CLUSTER_ID, KafkaPeer, classpath
from support.ports import HOST, free_ports
from support.process import Child
from support.tailrace_nodes import TailraceNodes
from tailrace.testing import Cluster

# Both brokers drop old segments every second, so that no cell runs out of tmpfs and all write to memory touched before.
SETTINGS = {
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
}
# What Kafka's own start script gives its JVM.
JVM = [
    "-Xms1g",
    "-Xmx1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
]


# Three brokers run with Kafka's own defaults, not with the short timers of the tests.
THREE = {
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "2000",
    "replica.lag.time.max.ms": "30000",
    "replica.fetch.wait.max.ms": "500",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
}
BROKERS = 3
SHORT_SESSION_MS = 8000  # below it the heartbeats come more often too


@dataclass(frozen=True)
class Target:
    """An address to put load on, and the processes whose CPU that costs; a cluster can have several addresses."""

    name: str
    address: str
    pids: Sequence[int]


class Kafka(KafkaPeer):
    """One combined node with the heap and the compiler that Kafka runs with in production."""

    def start(self, *options: str) -> None:
        """Formats the data folder, starts the node, returns when it serves."""
        properties = str(self.folder / "server.properties")
        command = ["java", "-cp", classpath(), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", properties]
        subprocess.run(command, check=True, capture_output=True)
        command = ["java", *JVM, *options, "-cp", classpath(), "kafka.Kafka", properties]
        self.child = Child(command, self.folder / "kafka.log", lambda line: "Kafka Server started" in line)
        self.child.wait_until_ready(60)

    def targets(self) -> list[Target]:
        """Kafka has one way in."""
        assert self.child is not None
        return [Target("kafka", self.bootstrap, (self.child.process.pid,))]


class Tailrace(Cluster):
    """`tailrace up` with one broker: its own client listener is open beside a gateway that hands clients over to it."""

    def targets(self) -> list[Target]:
        """The broker itself, and the same broker behind the gateway; the CPU of every role counts for both."""
        direct = self.addresses("broker")["client"].partition(",")[0]
        return [Target("direct", direct, _pids(self)), Target("handover", _gateway(self), _pids(self))]


class Relaying(Cluster):
    """The same with `gateway.handover=false`."""

    def targets(self) -> list[Target]:
        """The gateway; the CPU of every role counts."""
        return [Target("gateway", _gateway(self), _pids(self))]


def _pids(cluster: Cluster) -> list[int]:
    return [int(file.read_text()) for file in sorted((cluster.data_dir / "run").glob("*-*.pid"))]


def _gateway(cluster: Cluster) -> str:
    return cluster.addresses("gateway")["client"].partition(",")[0]


def kafka(folder: Path) -> Kafka:
    """A Kafka that is not started yet."""
    return Kafka(folder / "kafka", SETTINGS)


def tailrace(folder: Path) -> Tailrace:
    """A Tailrace that is not started yet."""
    settings = {**SETTINGS, "gateway.advertise": "brokers", "gateway.handover": "true"}
    return Tailrace(data_dir=folder / "tailrace", settings=settings)


def relaying(folder: Path) -> Relaying:
    """A Tailrace without hand-over that is not started yet."""
    return Relaying(data_dir=folder / "relaying", settings={**SETTINGS, "gateway.handover": "false"})


def three_kafkas(folder: Path, **settings: str) -> KafkaNodes:
    """Three brokers and a controller, each a JVM as in production, not started yet."""
    return KafkaNodes(folder / "kafka", BROKERS, settings={**THREE, **_keys(settings)}, jvm=JVM)


def three_tailraces(folder: Path, **settings: str) -> TailraceNodes:
    """Three brokers behind a gateway that tells its own addresses, beside one that tells the brokers'; not started."""
    told = {"gateway.advertise": "brokers"}
    nodes = TailraceNodes(folder / "tailrace", BROKERS, settings={**THREE, **_keys(settings)}, gateways=2)
    nodes.own_settings["gateway-1"] = {**told, "gateway.port": str(free_ports(BROKERS))}
    nodes.own_settings |= {f"broker-{n}": told for n in nodes.ids}
    return nodes


def targets_of(nodes: KafkaNodes | TailraceNodes) -> list[Target]:
    """The ways in; the CPU of every process counts for each."""
    pids = [child.process.pid for child in nodes.children.values()]
    if isinstance(nodes, KafkaNodes):
        return [Target("kafka", f"{HOST}:{nodes.port}", pids)]
    direct = f"{HOST}:{nodes.own_settings['gateway-1']['gateway.port']}"
    return [Target("direct", direct, pids), Target("gateway", f"{HOST}:{nodes.port}", pids)]


def _keys(settings: dict[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in settings.items()}

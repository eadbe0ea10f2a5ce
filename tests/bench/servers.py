"""What is measured against: Apache Kafka and Tailrace, each with its data on tmpfs in small recycled segments."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.kafka_peer import CLUSTER_ID, KafkaPeer, classpath
from support.process import Child
from support.tailrace_cluster import TailraceCluster

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


@dataclass(frozen=True)
class Target:
    """An address to put load on, and the processes whose CPU that costs; a cluster can have several addresses."""

    name: str
    address: str
    pids: Sequence[int]


class Kafka(KafkaPeer):
    """One combined node with the heap and the compiler that Kafka runs with in production."""

    def start(self) -> None:
        """Formats the data folder, starts the node, returns when it serves."""
        properties = str(self.folder / "server.properties")
        command = ["java", "-cp", classpath(), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", properties]
        subprocess.run(command, check=True, capture_output=True)
        command = ["java", *JVM, "-cp", classpath(), "kafka.Kafka", properties]
        self.child = Child(command, self.folder / "kafka.log", lambda line: "Kafka Server started" in line)
        self.child.wait_until_ready(60)

    def targets(self) -> list[Target]:
        """Kafka has one way in."""
        assert self.child is not None
        return [Target("kafka", self.bootstrap, (self.child.process.pid,))]


class Tailrace(TailraceCluster):
    """`tailrace up` with one broker, whose own client listener is open beside the gateway."""

    def targets(self) -> list[Target]:
        """The broker itself and the gateway; the CPU of every role counts for both."""
        run = self.folder / "data" / "run"
        pids = tuple(int(file.read_text().split()[0]) for file in sorted(run.glob("*.pid")))
        return [Target("direct", client_listener(run / "broker-0.json"), pids), Target("gateway", self.bootstrap, pids)]


def client_listener(file: Path) -> str:
    """The broker's client listener from the addresses that it published."""
    published = json.loads(file.read_text())
    addresses: dict[str, str] = published.get("addresses", published)
    return addresses["client"]


def kafka(folder: Path) -> Kafka:
    """A Kafka that is not started yet."""
    return Kafka(folder / "kafka", SETTINGS)


def tailrace(folder: Path) -> Tailrace:
    """A Tailrace that is not started yet."""
    data = folder / "tailrace"
    data.mkdir()
    return Tailrace(data, 1, {**SETTINGS, "gateway.advertise": "brokers"})


def pss_bytes(pids: Sequence[int]) -> int:
    """Memory of the processes, what they share counted once (proportional set size)."""
    total = 0
    for pid in pids:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total * 1024

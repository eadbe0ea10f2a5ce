"""Apache Kafka as several nodes: one controller and brokers 0 to n-1, each a JVM of its own."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.kafka_peer import CLUSTER_ID, classpath, quick_java
from support.nodes import START_S, Nodes, run_quietly
from support.ports import HOST, free_ports
from support.process import Child

CONTROLLER_ID = 100
HEAP_MB = 384


class KafkaNodes(Nodes):
    """The controller listens at `port` + `count`."""

    is_kafka = True

    def __init__(
        self,
        folder: Path,
        count: int = 3,
        *,
        settings: Mapping[str, str] | None = None,
        port: int = 0,
        jvm: Sequence[str] = (),
    ) -> None:
        super().__init__(folder, count, port or free_ports(count + 1), settings or {})
        self.java = ["java", *jvm, "-cp", classpath()] if jvm else quick_java(HEAP_MB)
        self.more_log_dirs: dict[int, Sequence[Path]] = {}  # a node's, beside its first

    def start(self) -> None:
        """Formats the controller's folder once and starts all."""
        self._write(CONTROLLER_ID, "controller", f"CONTROLLER://{HOST}:{self.port + self.count}", {})
        if not (self.folder / f"data-{CONTROLLER_ID}").exists():
            tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._file(CONTROLLER_ID))]
            run_quietly([*self.java, *tool])
        started = [self._spawn("controller-100", CONTROLLER_ID), *(self.launch(node) for node in self.ids)]
        for child in started:
            child.wait_until_ready(START_S)

    def launch(self, node: int) -> Child:
        """Writes the node's files where they are missing and starts it."""
        listener = f"PLAINTEXT://{HOST}:{self.port + node}"
        self._write(node, "broker", listener, {"broker.rack": f"r{node}", "advertised.listeners": listener})
        for data in (self.folder / f"data-{node}", *self.more_log_dirs.get(node, ())):
            if not data.exists():  # what StorageTool writes for a broker; a JVM for each would double the start
                data.mkdir()
                directory = uuid.uuid4().hex[:22]
                lines = ("version=1", f"cluster.id={CLUSTER_ID}", f"node.id={node}", f"directory.id={directory}")
                (data / "meta.properties").write_text("\n".join(lines) + "\n")
        return self._spawn(f"broker-{node}", node)

    def order_of_stopping(self) -> list[str]:
        """Brokers first: without their controller they never finish a shutdown."""
        return sorted(self.children)

    def _spawn(self, name: str, node: int) -> Child:
        command = [*self.java, "kafka.Kafka", str(self._file(node))]
        child = Child(command, self.folder / f"{name}.log", lambda line: "Kafka Server started" in line)
        self.children[name] = child
        return child

    def _file(self, node: int) -> Path:
        return self.folder / f"{node}.properties"

    def _write(self, node: int, role: str, listener: str, more: Mapping[str, str]) -> None:
        factor = str(min(3, self.count))
        properties = {
            "process.roles": role,
            "node.id": str(node),
            "controller.quorum.voters": f"{CONTROLLER_ID}@{HOST}:{self.port + self.count}",
            "listeners": listener,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": ",".join(map(str, (self.folder / f"data-{node}", *self.more_log_dirs.get(node, ())))),
            "offsets.topic.replication.factor": factor,
            "transaction.state.log.replication.factor": factor,
            "transaction.state.log.min.isr": "1",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            **more,
            **self.settings,
        }
        self._file(node).write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

"""Apache Kafka's own tools at a listener with one port for all nodes, which they find by name (SNI)."""

from __future__ import annotations

from pathlib import Path

from support import java_tools as tools
from support.java_tools import JavaTools, Shell
from support.listeners import three_listeners

LINES = [f"line {number}" for number in range(100)]


def test_kafkas_tools_reach_every_node_at_one_port(tmp_path: Path) -> None:
    ports, cluster = three_listeners()
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"127.0.0.1 {ports.told(node)[0]}\n" for node in (0, 1)) + "127.0.0.1 localhost\n")
    jvm = JavaTools(f"-Djdk.net.hosts.file={hosts}")
    try:
        with cluster:
            by = ("--command-config", str(cluster.data_dir / "clients" / "client.properties"))
            shell = Shell(jvm, ports.bootstrap)
            shell.out(tools.TOPICS, *by, "--create", "--topic", "t", "--partitions", "4", "--replication-factor", "1")
            shell.out(tools.PRODUCER, *by, "--topic", "t", stdin="\n".join(LINES) + "\n")
            limits = ("--from-beginning", "--max-messages", str(len(LINES)), "--timeout-ms", "40000", "--group", "g")
            read = shell.out(tools.CONSUMER, *by, "--topic", "t", *limits)
            assert sorted(line for line in read.splitlines() if line.startswith("line")) == sorted(LINES)
            listed = shell.out(
                tools.CONFIGS, *by, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1"
            )
            assert f"NODES://{ports.told(1)[0]}:{ports.nodes}" in listed
    finally:
        jvm.close()

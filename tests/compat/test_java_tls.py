"""Apache Kafka's own tools over TLS, with stores of PEM (KIP-651), at a gateway and at a broker's own listener."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import java_tools as tools
from support.certificates import Authority, listener_settings
from support.java_tools import JavaTools, Shell
from support.ports import free_ports
from tailrace.testing import Cluster

WAYS = {"at the gateway": {}, "at the broker": {"gateway.advertise": "brokers"}}
LINES = [f"line {number}" for number in range(500)]
USER = r"CN=svc\, one,OU=jobs,O=Example"  # as X500Principal writes it


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.replace(" ", "-"))
def cluster(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Cluster]:
    server = authority.sign("rsa-server", "/O=Example/CN=tailrace", rsa=True)
    settings = listener_settings(server, authority)
    with Cluster(port=free_ports(1), settings=settings | WAYS[request.param]) as running:
        yield running


@pytest.fixture
def client_file(authority: Authority, tmp_path: Path) -> str:
    """What Kafka's documents say to write."""
    client = authority.sign("svc", "/O=Example/OU=jobs/CN=svc, one")
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.keystore.type=PEM\n"
        f"ssl.truststore.location={authority.certificate}\nssl.keystore.location={client.both}\n"
    )
    return str(file)


def test_kafkas_tools_work_over_tls(cluster: Cluster, jvm: JavaTools, client_file: str) -> None:
    shell = Shell(jvm, cluster.bootstrap)
    by = ("--command-config", client_file)
    shell.out(tools.TOPICS, *by, "--create", "--topic", "t", "--partitions", "2", "--replication-factor", "1")
    shell.out(tools.PRODUCER, "--command-config", client_file, "--topic", "t", stdin="\n".join(LINES) + "\n")
    limits = ("--from-beginning", "--max-messages", str(len(LINES)), "--timeout-ms", "40000", "--group", "g")
    read = shell.out(tools.CONSUMER, "--command-config", client_file, "--topic", "t", *limits)
    assert sorted(line for line in read.splitlines() if line.startswith("line")) == sorted(LINES)
    assert "g" in shell.out(tools.GROUPS, *by, "--list").split()
    listed = shell.out(tools.CONFIGS, *by, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "0")
    assert "ssl.keystore.key=null sensitive=true" in listed and "ssl.client.auth=required" in listed


def test_the_quota_of_a_user_limits_the_client_that_java_names_so(
    cluster: Cluster, jvm: JavaTools, client_file: str
) -> None:
    shell = Shell(jvm, cluster.bootstrap)
    by = ("--command-config", client_file)
    entity = ("--entity-type", "users", "--entity-name", USER)
    shell.out(tools.CONFIGS, *by, "--alter", *entity, "--add-config", "producer_byte_rate=20000")
    assert "producer_byte_rate=20000" in shell.out(tools.CONFIGS, *by, "--describe", *entity)
    shell.out(tools.TOPICS, *by, "--create", "--topic", "slow", "--partitions", "1", "--replication-factor", "1")
    sent = jvm.run(
        tools.PRODUCER_PERFORMANCE,
        *("--topic", "slow", "--num-records", "60", "--record-size", "1000", "--throughput", "-1", "--print-metrics"),
        *("--bootstrap-server", cluster.bootstrap, "--command-config", client_file),
    )
    assert sent.code == 0, sent
    (throttled,) = (line for line in sent.out.splitlines() if "produce-throttle-time-max" in line)
    assert float(throttled.rpartition(":")[2]) > 0
    shell.out(tools.CONFIGS, *by, "--alter", *entity, "--delete-config", "producer_byte_rate")

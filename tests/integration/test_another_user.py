"""Another user of the machine gets at nothing of a running cluster but the ports that are for everybody."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer

from support.other_user import listening_ports, open_to_others, reached
from support.subscribing import subscribed
from support.waiting import HUNG_S
from tailrace.testing.cluster import Cluster

ROLES = ("controller", "broker", "coordinator", "quota", "gateway")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Started without a umask, in a folder that all may enter; with a record and a committed offset."""
    before = os.umask(0)
    base = Path(tempfile.mkdtemp(prefix="tailrace-", dir="/tmp"))
    base.chmod(0o755)
    try:
        with Cluster(brokers=2, data_dir=base / "data") as running:
            with KafkaProducer(bootstrap_servers=running.bootstrap) as producer:
                producer.send("secrets", b"value").get(HUNG_S)
            consumer = subscribed(
                "secrets", bootstrap_servers=running.bootstrap, group_id="g", auto_offset_reset="earliest"
            )
            assert next(consumer).value == b"value"
            consumer.commit()
            consumer.close()
            yield running
    finally:
        os.umask(before)
        shutil.rmtree(base, ignore_errors=True)


def held(cluster: Cluster) -> list[Path]:
    """All that the cluster made; up.log is the test's own."""
    return [path for path in sorted(cluster.data_dir.rglob("*")) if path != cluster.log_path]


def test_all_files_and_folders_are_the_owners_alone(cluster: Cluster) -> None:
    names = {path.name for path in held(cluster)}
    assert {"metadata.db", "metadata.db-wal", "broker-0.sock", "gateway-0.sock", "up.json", "up.lock"} <= names
    assert any(name.endswith(".log") for name in names)
    cluster.log_path.chmod(0o600)
    assert open_to_others(cluster.data_dir) == []


def test_nobody_reads_lists_or_connects_to_any_of_it(cluster: Cluster) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    assert reached(held(cluster)) == []


def test_no_role_listens_on_tcp_but_for_clients_and_for_health(cluster: Cluster) -> None:
    for path in sorted(cluster.data_dir.glob("run/*-*.pid")):
        role, number = path.stem.split("-")
        known = {
            int(address.rpartition(":")[2])
            for name, value in cluster.addresses(role, int(number)).items()
            if name in {"client", "admin", "http"}
            for address in value.split(",")
        }
        found = listening_ports(cluster.process_id(role, int(number)))
        if role == "gateway":  # a port of each broker
            known |= {port + 1 for port in known}
        assert found <= known, path.name
        assert set(cluster.addresses(role, int(number))) <= {"internal", "http", "client", "admin"}

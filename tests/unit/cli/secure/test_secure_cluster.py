"""What `up --secure` prepares before the roles start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.cli.secure.certificates import files_of, server_facts
from tailrace.cli.secure.secure_cluster import SECURED, SecureCluster, settings_of
from tailrace.clock import ManualClock
from tailrace.config import Config
from tailrace.net.listeners.listener import listeners_of
from tailrace.net.tls.handshakes import check_tls
from tailrace.runtime.insecure_listeners import check_listeners

A_YEAR_MS = 365 * 86_400_000
ROLES = ("controller", "broker", "coordinator", "quota", "gateway")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(clock: ManualClock, tmp_path: Path) -> SecureCluster:
    return SecureCluster(tmp_path, ["0.0.0.0"], ["kafka.example.org"], clock)


@pytest.mark.parametrize(
    "of_clients",
    [
        {"gateway.listen": "0.0.0.0,::", "gateway.security.protocol": SECURED},
        {"listeners": "EXTERNAL://:9092", "listener.security.protocol.map": f"EXTERNAL:{SECURED}"},
    ],
    ids=["short", "listeners"],
)
def test_its_settings_let_it_listen_everywhere(
    cluster: SecureCluster, clock: ManualClock, tmp_path: Path, of_clients: dict[str, str]
) -> None:
    config = Config.load("gateway", None, {}, {**settings_of(tmp_path), **of_clients})
    assert config.warnings == ()
    check_listeners(config, ROLES)
    (listener,) = listeners_of(config)
    check_tls(listener.tls, listener.principal_rules, clock.wall_ms())
    assert listener.mechanisms == ("SCRAM-SHA-512", "SCRAM-SHA-256")


def test_the_certificate_has_the_advertised_name(cluster: SecureCluster, tmp_path: Path) -> None:
    assert {"kafka.example.org", "localhost"} <= set(server_facts(files_of(tmp_path)).names)


def test_a_certificate_is_renewed_while_the_cluster_runs(
    cluster: SecureCluster, clock: ManualClock, tmp_path: Path
) -> None:
    before = files_of(tmp_path).server.read_bytes()
    assert cluster.renew() == ""
    clock.jump(A_YEAR_MS * 3 / 4)
    assert "was renewed" in cluster.renew()
    assert files_of(tmp_path).server.read_bytes() != before
    assert cluster.renew() == ""


def test_a_renewal_that_fails_is_said_and_leaves_what_is_there(
    cluster: SecureCluster, clock: ManualClock, tmp_path: Path
) -> None:
    files = files_of(tmp_path)
    before = files.server.read_bytes()
    files.authority.write_text("nothing")
    assert "could not be renewed" in cluster.renew()
    assert files.server.read_bytes() == before

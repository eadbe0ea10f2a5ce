"""The five services as if each had a host of its own: they meet over TCP, where all of them prove one secret."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from support.other_user import listening_ports
from support.ports import HOST, free_ports
from tailrace.wire import codec
from tailrace.wire.messages import FenceShardRequest

NAME = "localhost"  # as in containers, where an address changes and a name does not
Events = list[dict[str, object]]
ROLES = ("controller", "broker", "coordinator", "quota", "gateway")


class Hosts:
    """Roles by name, each with a data directory and a file of settings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.secret = self.write_secret("secret", "s" * 64)
        self.controller = f"{HOST}:{free_ports(1)}"
        self.gateway_port = free_ports(2)
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def write_secret(self, name: str, text: str) -> Path:
        path = self.path / name
        path.touch(0o600)
        path.write_text(text)
        return path

    def command(self, role: str, name: str, **more: str) -> list[str]:
        settings = {
            "data.dir": str(self.path / name),
            "controller.quorum.bootstrap.servers": self.controller,
            "internal.listen": self.controller if role == "controller" else HOST if role == "quota" else "0.0.0.0",
            **({"internal.advertised.host": NAME} if role in {"broker", "coordinator"} else {}),
            "internal.secret.file": str(self.secret),
            "gateway.listen": HOST,
            "gateway.port": str(self.gateway_port),
            "admin.port": "0",
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        flags = [flag for key, value in settings.items() for flag in ("--set", f"{key}={value}")]
        return [sys.executable, "-m", f"tailrace_{role}", "--log-format", "json", *flags]

    @contextmanager
    def running(self, role: str, name: str, **more: str) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(self.command(role, name, **more), stderr=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)

    def addresses(self, name: str) -> Mapping[str, str]:
        (file,) = (self.path / name / "run").glob("*-0.json")
        found: dict[str, str] = json.loads(file.read_text())["addresses"]
        return found


def wait_for(process: subprocess.Popen[str], event: str, word: str = "") -> dict[str, object]:
    """The first line of the log with this event; the tests' timeout ends a wait for ever."""
    assert process.stderr
    for line in process.stderr:
        if line.startswith("{") and (said := json.loads(line))["event"] == event and word in line:
            found: dict[str, object] = said
            return found
    raise AssertionError(f"it ended without {event}")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    hosts = Hosts(tmp_path_factory.mktemp("hosts"))
    with ExitStack() as stack:
        for role in ROLES:
            hosts.processes[role] = stack.enter_context(hosts.running(role, role))
        for process in hosts.processes.values():
            wait_for(process, "ready")
        yield hosts


def metric(hosts: Hosts, role: str, name: str) -> float:
    with urllib.request.urlopen(f"http://{hosts.addresses(role)['http']}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(f"{name} ")))


def test_records_groups_and_offsets_go_over_proven_connections(hosts: Hosts) -> None:
    bootstrap = f"{HOST}:{hosts.gateway_port}"
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        producer.send("t", b"value").get(30)
    consumer = KafkaConsumer("t", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest")
    assert next(consumer).value == b"value"
    consumer.commit()
    consumer.close()
    for role in ("controller", "broker", "coordinator"):
        assert metric(hosts, role, "tailrace_successful_authentication_total") > 0, role


@pytest.mark.parametrize("role", ["controller", "broker", "coordinator", "quota"])
def test_a_stranger_reaches_no_role(hosts: Hosts, role: str) -> None:
    host, port = hosts.addresses(role)["internal"].split(":")
    assert int(port) in listening_ports(hosts.processes[role].pid)
    before = metric(hosts, role, "tailrace_failed_authentication_total")
    frame = codec.encode_request(FenceShardRequest(shard_epoch=2**31 - 1), 0, 1, "stranger")
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(frame)
        with suppress(ConnectionResetError):
            assert sock.recv(1) == b""
    assert metric(hosts, role, "tailrace_failed_authentication_total") == before + 1


def test_a_broker_of_another_secret_is_kept_out_and_says_why(hosts: Hosts) -> None:
    other = hosts.write_secret("other", "o" * 64)
    before = metric(hosts, "controller", "tailrace_failed_authentication_total")
    with hosts.running("broker", "stranger", node_id="7", internal_secret_file=str(other)) as process:
        said = wait_for(process, "metadata is stale", "internal.secret.file")
        assert "another secret" in str(said)
    assert metric(hosts, "controller", "tailrace_failed_authentication_total") > before


@pytest.mark.parametrize(
    ("role", "key"), [("controller", "internal.listen"), ("quota", "controller.quorum.bootstrap.servers")]
)
def test_a_role_that_needs_a_secret_and_has_none_does_not_start(hosts: Hosts, role: str, key: str) -> None:
    ended = subprocess.run(
        hosts.command(role, f"{role}-alone", internal_secret_file=""),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    sentence = ended.stderr.splitlines()[-1]
    assert key in sentence
    assert "internal.secret.file" in sentence

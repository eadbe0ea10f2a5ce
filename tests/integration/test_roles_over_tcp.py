"""The five services as if each had a host of its own: they meet over TCP, where all of them prove one secret.

Once with IPv4, and once with every address of IPv6.
"""

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
from confluent_kafka import Producer
from kafka import KafkaProducer

from support.other_user import listening_ports
from support.ports import HOST, free_ports
from support.subscribing import subscribed
from support.waiting import HUNG_S
from tailrace.net.address import Address
from tailrace.wire import codec
from tailrace.wire.messages import FenceShardRequest

Events = list[dict[str, object]]
ROLES = ("controller", "broker", "coordinator", "quota", "gateway")


class Hosts:
    """Roles by name, each with a data directory and a file of settings."""

    def __init__(self, path: Path, host: str) -> None:
        self.path = path
        self.host = host
        # As in containers, where an address changes and a name does not.
        self.every_address, self.name = ("::", host) if ":" in host else ("0.0.0.0", "localhost")
        self.secret = self.write_secret("secret", "s" * 64)
        self.controller = str(Address(host, free_ports(1)))
        self.gateway_port = free_ports(2)
        self.bootstrap = str(Address(host, self.gateway_port))
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
            "internal.listen": {"controller": self.controller, "quota": self.host}.get(role, self.every_address),
            **({"internal.advertised.host": self.name} if role in {"broker", "coordinator"} else {}),
            "internal.secret.file": str(self.secret),
            "gateway.listen": self.host,
            "health.listen": self.host,
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
            process.communicate(timeout=HUNG_S)

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


@pytest.fixture(scope="module", params=[HOST, "::1"])
def hosts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    hosts = Hosts(tmp_path_factory.mktemp("hosts"), request.param)
    with ExitStack() as stack:
        for role in ROLES:
            hosts.processes[role] = stack.enter_context(hosts.running(role, role))
        for process in hosts.processes.values():
            wait_for(process, "ready")
        yield hosts


def metric(hosts: Hosts, role: str, name: str) -> float:
    with urllib.request.urlopen(f"http://{hosts.addresses(role)['http']}/metrics", timeout=HUNG_S) as page:
        lines = page.read().decode().splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(f"{name} ")))


def test_records_groups_and_offsets_go_over_proven_connections(hosts: Hosts) -> None:
    with KafkaProducer(bootstrap_servers=hosts.bootstrap) as producer:
        producer.send("t", b"value").get(HUNG_S)
    consumer = subscribed("t", bootstrap_servers=hosts.bootstrap, group_id="g", auto_offset_reset="earliest")
    assert next(consumer).value == b"value"
    consumer.commit()
    consumer.close()
    for role in ("controller", "broker", "coordinator"):
        assert metric(hosts, role, "tailrace_successful_authentication_total") > 0, role


def command(hosts: Hosts, *arguments: str) -> str:
    """What a command prints; it must succeed."""
    words = [sys.executable, "-m", "tailrace.cli", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HUNG_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_operators_reach_it_at_the_address_that_is_told(hosts: Hosts) -> None:
    command(hosts, "topic", "create", "told", "-b", hosts.bootstrap)
    (row,) = json.loads(command(hosts, "broker", "list", "--json", "-b", hosts.bootstrap))
    assert str(Address(row["host"], row["port"])) == hosts.bootstrap
    configs = command(hosts, "config", "show", "broker", "0", "-b", hosts.bootstrap)
    assert f" PLAINTEXT://{hosts.bootstrap} " in configs
    admin = f"http://{hosts.addresses('gateway')['admin']}"
    assert "Controller" in command(hosts, "status", "--admin", admin)
    with urllib.request.urlopen(f"{admin}/v3/clusters", timeout=HUNG_S) as answer:
        assert json.load(answer)["data"][0]["metadata"]["self"].startswith(f"{admin}/v3/clusters/")
    command(hosts, "health", "--data", str(hosts.path / "gateway"))


def test_librdkafka_reaches_it(hosts: Hosts) -> None:
    told: list[object] = []
    producer = Producer({"bootstrap.servers": hosts.bootstrap})
    producer.produce("of-librdkafka", b"value", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(HUNG_S) == 0 and told == [None]


@pytest.mark.parametrize("role", ["controller", "broker", "coordinator", "quota"])
def test_a_stranger_reaches_no_role(hosts: Hosts, role: str) -> None:
    host, port = Address.parse(hosts.addresses(role)["internal"])
    assert port in listening_ports(hosts.processes[role].pid)
    before = metric(hosts, role, "tailrace_failed_authentication_total")
    frame = codec.encode_request(FenceShardRequest(shard_epoch=2**31 - 1), 0, 1, "stranger")
    with socket.create_connection((host, port), timeout=HUNG_S) as sock:
        sock.sendall(frame)
        with suppress(ConnectionResetError):
            assert sock.recv(1) == b""
    assert metric(hosts, role, "tailrace_failed_authentication_total") == before + 1


def test_a_broker_of_another_secret_is_kept_out_and_says_why(hosts: Hosts) -> None:
    other = hosts.write_secret("other", "o" * 64)
    before = metric(hosts, "controller", "tailrace_failed_authentication_total")
    controller = hosts.processes["controller"]
    with hosts.running("broker", "stranger", node_id="7", internal_secret_file=str(other)) as process:
        said = wait_for(process, "metadata is stale", "internal.secret.file")
        assert "another secret" in str(said)
        assert str(wait_for(controller, "authentication failed")["user"]).startswith("broker-7/")
    assert metric(hosts, "controller", "tailrace_failed_authentication_total") > before


def test_the_secret_is_changed_while_services_run(hosts: Hosts) -> None:
    """As docs/operations.md has it: both are valid for a while, and each service takes the file up by itself."""
    old = hosts.secret.read_text().strip()
    new = "n" * 63 + old[-1:]
    for text in (f"{old}\n{new}\n", f"{new}\n{old}\n", new):
        hosts.secret.write_text(text)
        for process in hosts.processes.values():
            wait_for(process, "cluster secret reloaded")
    only_new = hosts.write_secret("new", new)
    port = str(free_ports(2))
    with hosts.running("gateway", "later", gateway_port=port, internal_secret_file=str(only_new)) as process:
        wait_for(process, "ready")
    with KafkaProducer(bootstrap_servers=hosts.bootstrap) as producer:
        producer.send("changed", b"value").get(HUNG_S)


@pytest.mark.parametrize(
    ("role", "key"), [("controller", "internal.listen"), ("quota", "controller.quorum.bootstrap.servers")]
)
def test_a_role_that_needs_a_secret_and_has_none_does_not_start(hosts: Hosts, role: str, key: str) -> None:
    ended = subprocess.run(
        hosts.command(role, f"{role}-alone", internal_secret_file=""),
        check=False,
        capture_output=True,
        text=True,
        timeout=HUNG_S,
    )
    assert ended.returncode == 1
    sentence = ended.stderr.splitlines()[-1]
    assert key in sentence
    assert "internal.secret.file" in sentence

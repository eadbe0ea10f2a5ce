"""Single services over TCP that ask clients for logins, by the settings of deploy/compose/overlays/secure.yml.

The first user is made on the host of a controller, which has no Unix socket: with the cluster's secret.
"""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError

import pytest
import yaml
from kafka import KafkaProducer

from integration.test_roles_over_tcp import ROLES, Hosts, wait_for
from support.commands import ROOT
from support.ports import HOST
from support.waiting import HUNG_S, until

OVERLAY = ROOT / "deploy" / "compose" / "overlays" / "secure.yml"
PASSWORD = "of the test"
# kafka-python 3.0.12 closes no socket whose handshake is cut short by its own close: see test_tls.py.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)


def ended(arguments: tuple[str, ...], environment: Mapping[str, str] | None, stdin: str) -> tuple[int, str]:
    words = [sys.executable, "-m", "tailrace.cli", *arguments]
    environ = {**os.environ, **(environment or {})}
    done = subprocess.run(words, capture_output=True, text=True, timeout=HUNG_S, check=False, env=environ, input=stdin)
    return done.returncode, done.stdout + done.stderr


def tailrace(*arguments: str, environment: Mapping[str, str] | None = None, stdin: str = "") -> None:
    """A command that succeeds."""
    status, said = ended(arguments, environment, stdin)
    assert status == 0, said


def failing(*arguments: str, environment: Mapping[str, str] | None = None, stdin: str = "") -> str:
    """What a command says that does not."""
    status, said = ended(arguments, environment, stdin)
    assert status == 1, said
    return said


class Secured(Hosts):
    """The services with the environment that the overlay gives to each."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, HOST)
        overlay = yaml.safe_load(OVERLAY.read_text(encoding="utf-8"))
        command = overlay["services"]["certificates"]["command"]
        assert command[:3] == ["cert", "create", "--data"]
        tailrace("cert", "create", "--data", str(path / "certificates"), "--name", "kafka.example.org")
        self.environment = {role: self._environment(overlay, role) for role in ROLES}

    def _environment(self, overlay: Mapping[str, dict[str, dict[str, dict[str, str]]]], role: str) -> dict[str, str]:
        environment = overlay["services"][f"{role}-0"]["environment"]
        return {
            key: text.replace("/certificates", str(self.path / "certificates")) for key, text in environment.items()
        }

    def command(self, role: str, name: str, **more: str) -> list[str]:
        # What other machines reach must ask for a login, or the service does not start.
        reached = {"gateway_listen": "0.0.0.0", "health_listen": "0.0.0.0", "gateway_advertised_host": HOST}
        words = super().command(role, name, **{**reached, **more})
        return ["env", *(f"{key}={text}" for key, text in self.environment[role].items()), *words]

    def client(self) -> dict[str, str]:
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(self.authority),
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "admin",
            "sasl_plain_password": PASSWORD,
        }

    @property
    def authority(self) -> Path:
        return self.path / "certificates" / "tls" / "ca.crt"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    hosts = Secured(tmp_path_factory.mktemp("secured"))
    with ExitStack() as stack:
        for role in ROLES:
            hosts.processes[role] = stack.enter_context(hosts.running(role, role))
        for process in hosts.processes.values():
            wait_for(process, "ready")
        secret = {"TAILRACE_INTERNAL_SECRET_FILE": str(hosts.secret)}
        data = str(hosts.path / "controller")
        tailrace("user", "create", "admin", "--data", data, environment=secret, stdin=f"{PASSWORD}\n")
        until(lambda: status(hosts, f"admin:{PASSWORD}") == 200, "the gateway has heard of the user")
        yield hosts


def status(hosts: Secured, login: str = "") -> int:
    """Of the REST API's answer."""
    context = ssl.create_default_context(cafile=str(hosts.authority))
    url = f"https://{HOST}:{hosts.addresses('gateway')['admin'].rpartition(':')[2]}/v3/clusters"
    basic = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if login else {}
    asked = urllib.request.Request(url, headers=basic)
    try:
        with urllib.request.urlopen(asked, timeout=HUNG_S, context=context) as answer:
            return int(answer.status)
    except HTTPError as refused:
        with refused:
            return refused.code


def test_a_client_with_the_login_is_served_and_others_are_not(hosts: Secured) -> None:
    with KafkaProducer(**hosts.client()) as producer:
        producer.send("t", b"value").get(HUNG_S)
    file = hosts.path / "wrong.properties"
    file.write_text(
        f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={hosts.authority}\n"
        "sasl.mechanism=SCRAM-SHA-512\nsasl.username=admin\nsasl.password=wrong\n"
    )
    refused = failing("--command-config", str(file), "topic", "list", "-b", hosts.bootstrap)
    assert "Authentication failed" in refused


def test_rest_asks_for_the_same_login_over_https(hosts: Secured) -> None:
    assert [status(hosts), status(hosts, f"admin:{PASSWORD}")] == [401, 200]


def test_a_lost_password_is_replaced_on_the_host_of_a_controller(hosts: Secured) -> None:
    secret = {"TAILRACE_INTERNAL_SECRET_FILE": str(hosts.secret)}
    data = str(hosts.path / "controller")
    tailrace("user", "create", "bob", "--data", data, environment=secret, stdin="another\n")
    other = {"TAILRACE_INTERNAL_SECRET_FILE": str(hosts.write_secret("other", "o" * 64))}
    refused = failing("user", "create", "eve", "--data", data, environment=other, stdin="another\n")
    assert "internal.secret.file" in refused


def test_the_overlay_gives_all_services_the_same_and_the_gateways_the_certificate() -> None:
    overlay = yaml.safe_load(OVERLAY.read_text(encoding="utf-8"))
    whole = yaml.safe_load((OVERLAY.parents[1] / "cluster.yml").read_text(encoding="utf-8"))
    tailrace_services = {name for name in whole["services"] if name.rpartition("-")[0] in ROLES}
    assert overlay["services"].keys() == tailrace_services | {"certificates"}
    (alike,) = {tuple(overlay["services"][name]["environment"].items()) for name in tailrace_services}
    assert ("TAILRACE_ALLOW_INSECURE_LISTENERS", "false") in alike
    for name in tailrace_services:
        assert ("volumes" in overlay["services"][name]) is name.startswith("gateway")

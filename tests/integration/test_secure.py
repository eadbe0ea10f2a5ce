"""`up --secure`: what it printed is typed, and a stranger gets in nowhere."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from support.contents import contents
from support.waiting import HUNG_S, until
from tailrace.config import properties
from tailrace.net.address import Address
from tailrace.testing import Cluster

TOPIC = "orders"
INSTANCES = (("controller", 0), ("broker", 0), ("coordinator", 0), ("quota", 0), ("gateway", 0), ("gateway", 1))
FILES = {
    "admin.password",
    "ca.crt",
    "client.properties",
    "curl.conf",
    "kafka_python.py",
    "kcat.conf",
    "librdkafka.properties",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(data_dir=tmp_path_factory.mktemp("secure"), gateways=2, arguments=("--secure",)) as running:
        admin = AdminClient(librdkafka(running))
        for future in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
            future.result(HUNG_S)
        yield running


def clients(cluster: Cluster) -> Path:
    return cluster.data_dir / "clients"


def password(cluster: Cluster) -> str:
    return (clients(cluster) / "admin.password").read_text().strip()


def librdkafka(cluster: Cluster) -> dict[str, Any]:
    text = (clients(cluster) / "librdkafka.properties").read_text()
    return {key: value for key, (value, _) in properties.parse(text).items()}


def printed(cluster: Cluster) -> list[list[str]]:
    """The commands that `up` has printed below Connect."""
    sentence = cluster.wait_for("all_ready", timeout_seconds=0)["sentence"]
    lines = sentence.partition("  Connect    ")[2].partition("  Add a user")[0].splitlines()
    return [line.split() for line in lines if " -" in line or line.strip().startswith("python ")]


def run(*command: str) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HUNG_S, check=False, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", ["tailrace", "python", "curl"])
def test_what_was_printed_works(cluster: Cluster, program: str) -> None:
    (command,) = (words for words in printed(cluster) if words[0] == program)
    said = run(*command)
    assert ("KafkaClusterList" if program == "curl" else TOPIC) in said


def tailrace(cluster: Cluster, *words: str, typed: str = "") -> str:
    command = (sys.executable, "-m", "tailrace.cli", "--command-config", str(clients(cluster) / "client.properties"))
    done = subprocess.run((*command, *words), input=typed, capture_output=True, text=True, timeout=HUNG_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_another_user_may_do_what_an_acl_allows(cluster: Cluster) -> None:
    where = ("--bootstrap", cluster.bootstrap)
    tailrace(cluster, "user", "create", "alice", "--mechanism", "SCRAM-SHA-512", *where, typed="of alice\n")
    alice = {**librdkafka(cluster), "sasl.username": "alice", "sasl.password": "of alice"}
    assert TOPIC not in AdminClient(alice).list_topics(timeout=HUNG_S).topics
    curl = ("curl", "-sS", "--cacert", str(clients(cluster) / "ca.crt"), "-u", "alice:of alice")
    status = (*curl, "-o", os.devnull, "-w", "%{http_code}", f"{cluster.admin}/v3/clusters")
    until(lambda: run(*status) == "200", "the gateway of the admin port has heard of alice")
    cluster_id = re.findall(r'"cluster_id":"([^"]+)"', run(*curl, f"{cluster.admin}/v3/clusters"))[0]
    topics = f"{cluster.admin}/v3/clusters/{cluster_id}/topics"
    assert TOPIC not in run(*curl, topics)
    allow = ("--allow-principal", "User:alice", "--operation", "describe", "--topic", TOPIC)
    tailrace(cluster, "acl", "create", *allow, *where)
    until(lambda: TOPIC in AdminClient(alice).list_topics(timeout=HUNG_S).topics, "alice sees the topic")
    until(lambda: TOPIC in run(*curl, topics), "alice sees the topic over HTTP")


def test_confluent_kafka_writes_and_reads(cluster: Cluster) -> None:
    producer = Producer(librdkafka(cluster))
    producer.produce(TOPIC, b"apple")
    assert producer.flush(HUNG_S) == 0
    consumer = Consumer({**librdkafka(cluster), "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    message = consumer.poll(HUNG_S)
    consumer.close()
    assert message is not None and message.value() == b"apple"


STRANGERS: dict[str, dict[str, Any]] = {
    "without TLS": {"security.protocol": "PLAINTEXT"},
    "without a login": {"security.protocol": "SSL"},
    "with a wrong password": {"sasl.password": "a guess"},
    "as another user": {"sasl.username": "bob"},
}


@pytest.mark.parametrize("how", STRANGERS)
def test_a_stranger_is_refused_at_the_port_of_clients(cluster: Cluster, how: str) -> None:
    conf = {**librdkafka(cluster), **STRANGERS[how], "log_level": 0}
    with pytest.raises(KafkaException):
        AdminClient(conf).list_topics(timeout=2)


# kafka-python 3.0.12 closes no socket whose handshake is cut short by its own close: see test_tls.py.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning")
def test_kafka_python_without_a_login_is_refused(cluster: Cluster) -> None:
    ca = str(clients(cluster) / "ca.crt")
    with pytest.raises(KafkaError):
        KafkaAdminClient(
            bootstrap_servers=cluster.bootstrap,
            security_protocol="SSL",
            ssl_cafile=ca,
            request_timeout_ms=2_000,
            bootstrap_timeout_ms=2_000,
        )


@pytest.mark.parametrize("page", ["/", "/docs", "/openapi.json", "/v3/clusters"])
def test_a_stranger_is_refused_at_the_admin_port(cluster: Cluster, page: str) -> None:
    context = ssl.create_default_context(cafile=str(clients(cluster) / "ca.crt"))
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{cluster.admin}{page}", context=context, timeout=HUNG_S)
    assert refused.value.code == 401
    refused.value.close()
    with pytest.raises(OSError):
        urllib.request.urlopen(cluster.admin.replace("https://", "http://") + page, timeout=HUNG_S)


def admin_port(cluster: Cluster, gateway: int) -> Address:
    """Of one gateway: `up` has picked a port for each."""
    return Address.parse(cluster.addresses("gateway", gateway)["admin"].removeprefix("https://"))


def asked(
    cluster: Cluster, method: str, path: str, body: str = "", *, gateway: int = 0, **headers: str
) -> HTTPResponse:
    """One gateway's answer."""
    address = admin_port(cluster, gateway)
    context = ssl.create_default_context(cafile=str(clients(cluster) / "ca.crt"))
    connection = HTTPSConnection(address.host, address.port, context=context, timeout=HUNG_S)
    connection.request(method, path, body or None, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def test_a_browser_logs_in_at_one_gateway_and_each_takes_its_session(cluster: Cluster) -> None:
    sent = asked(cluster, "GET", "/", accept="text/html")
    assert (sent.status, sent.getheader("location")) == (303, "/login")
    form = urlencode({"user": "admin", "password": password(cluster)})
    done = asked(cluster, "POST", "/login", form, content_type="application/x-www-form-urlencoded")
    assert (done.status, done.getheader("location")) == (303, "/")
    given = [value.partition(";")[0] for value in done.headers.get_all("set-cookie") or ()]
    cookie = "; ".join(given)
    csrf = next(pair.partition("=")[2] for pair in given if pair.startswith("X-Tailrace-CSRF="))
    assert [asked(cluster, "GET", "/v3/clusters", cookie=cookie, gateway=one).status for one in (0, 1)] == [200, 200]
    cluster_id = AdminClient(librdkafka(cluster)).list_topics(timeout=HUNG_S).cluster_id
    users = f"/v3/clusters/{cluster_id}/users"
    new = json.dumps({"user_name": "carol", "password": "carol-secret"})
    assert asked(cluster, "POST", users, new, cookie=cookie, content_type="application/json").status == 403
    given_token = {"content_type": "application/json", "X_Tailrace_CSRF": csrf}
    made = asked(cluster, "POST", users, new, cookie=cookie, gateway=1, **given_token)
    assert made.status == 201
    assert asked(cluster, "DELETE", f"{users}/carol", cookie=cookie, X_Tailrace_CSRF=csrf).status == 204
    wrong = asked(cluster, "GET", "/v3/clusters", cookie=cookie.replace("=", "=A", 1))
    assert (wrong.status, wrong.getheader("www-authenticate")) == (401, None)


def listening(cluster: Cluster) -> set[int]:
    """The TCP ports on which the cluster's processes listen."""
    inodes = set()
    for pid in [cluster.pid, *(cluster.process_id(*instance) for instance in INSTANCES)]:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link))
            except FileNotFoundError:
                continue
            if found:
                inodes.add(found[1])
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in Path(table).read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def test_no_other_port_is_open_but_health_on_the_loopback(cluster: Cluster) -> None:
    health = {Address.parse(cluster.addresses(*instance)["http"]).port for instance in INSTANCES}
    known = {Address.parse(cluster.bootstrap).port, *(admin_port(cluster, gateway).port for gateway in (0, 1))}
    assert listening(cluster) == known | health
    for port in health:
        with socket.create_connection(("127.0.0.1", port), HUNG_S):
            pass


def test_files_are_their_owners_alone(cluster: Cluster) -> None:
    for folder, names in (("clients", FILES), ("tls", {"ca.pem", "ca.crt", "server.pem"})):
        path = cluster.data_dir / folder
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == dict.fromkeys(names, 0o600)
    assert len(password(cluster)) == 32


def test_the_password_is_on_no_command_line_in_no_log_and_in_no_page(cluster: Cluster) -> None:
    secret = password(cluster).encode()
    places: dict[str, bytes] = {"log": cluster.log_path.read_bytes()}
    for role in ("controller", "broker", "coordinator", "quota", "gateway"):
        pid = cluster.process_id(role)
        places |= {f"{role} {name}": Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")}
        http = cluster.addresses(role)["http"]
        for page in ("metrics", "healthz"):
            with urllib.request.urlopen(f"http://{http}/{page}", timeout=HUNG_S) as answer:
                places[f"{role} {page}"] = answer.read()
    curl = ("curl", "-sSf", "-K", str(clients(cluster) / "curl.conf"))
    cluster_url = f"{cluster.admin}/v3/clusters"
    for below in ("", "/-/brokers/0/configs"):
        cluster_id = re.findall(r'"cluster_id":"([^"]+)"', run(*curl, cluster_url))[0]
        places[f"REST {below}"] = run(*curl, cluster_url + below.replace("-", cluster_id, 1)).encode()
    places["ready"] = str(cluster.wait_for("all_ready", timeout_seconds=0)).encode()
    private = {clients(cluster) / name for name in FILES}
    places |= {str(file): held for file, held in contents(cluster.data_dir.rglob("*")).items() if file not in private}
    assert [place for place, content in places.items() if secret in content] == []


def test_a_second_start_keeps_password_and_authority_and_a_new_certificate_needs_none(
    cluster: Cluster, tmp_path: Path
) -> None:
    kept = {name: (cluster.data_dir / name).read_bytes() for name in ("clients/admin.password", "tls/ca.pem")}
    cluster.stop()
    cluster.start()
    assert {name: (cluster.data_dir / name).read_bytes() for name in kept} == kept
    assert TOPIC in AdminClient(librdkafka(cluster)).list_topics(timeout=HUNG_S).topics
    address = Address.parse(cluster.bootstrap)
    before = certificate(cluster, address)
    run(sys.executable, "-m", "tailrace.cli", "cert", "renew", "--data", str(cluster.data_dir))
    until(lambda: certificate(cluster, address) != before, "the new certificate is shown")


def certificate(cluster: Cluster, address: Address) -> bytes:
    """What the port of clients shows, which a client that trusts the authority accepts."""
    context = ssl.create_default_context(cafile=str(clients(cluster) / "ca.crt"))
    with (
        socket.create_connection((address.host, address.port), HUNG_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        found = encrypted.getpeercert(binary_form=True)
    assert found is not None
    return found

"""SASL beside Apache Kafka: the answers to logins of each kind, and Kafka's own tools with users of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import java_tools as tools
from support import kafka_peer
from support.java_tools import JavaTools, Shell
from support.kafka_peer import KafkaPeer
from support.plugin import leave_out
from support.ports import free_ports
from support.raw import ConnectionClosed, Raw, build
from tailrace.cli.secure.reset import reset_admin
from tailrace.net.address import Address
from tailrace.testing import Cluster

HANDSHAKE, AUTHENTICATE = 17, 36
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
MODULE = "org.apache.kafka.common.security"
KAFKA = {
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.sasl.plain.sasl.jaas.config": f'{MODULE}.plain.PlainLoginModule required user_alice="right";',
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
}


@pytest.fixture(scope="module")
def tailrace() -> Iterator[Cluster]:
    settings = {"gateway.security.protocol": "SASL_PLAINTEXT", "sasl.enabled.mechanisms": ",".join(MECHANISMS)}
    with Cluster(port=free_ports(1), settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    if absent := kafka_peer.missing():
        leave_out(absent)
    peer = KafkaPeer(tmp_path_factory.mktemp("kafka"), {})
    at = Address("127.0.0.1", free_ports(1))
    controller = f"127.0.0.1:{peer.port + 1}"
    listeners = {
        "listeners": f"PLAINTEXT://{peer.bootstrap},SASL://{at},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{peer.bootstrap},SASL://{at}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    }
    with (peer.folder / "server.properties").open("a") as file:
        file.writelines(f"{key}={value}\n" for key, value in (KAFKA | listeners).items())
    peer.start()
    yield at
    peer.stop()


def ask(connection: Raw, key: int, version: int, **fields: Any) -> Any:
    return connection.ask(build(key, **fields), version)


def handshake(connection: Raw, mechanism: str = "PLAIN", version: int = 1) -> tuple[int, list[str]]:
    answer = ask(connection, HANDSHAKE, version, mechanism=mechanism)
    return answer.error_code, sorted(answer.mechanisms)


def token(connection: Raw, data: bytes, version: int = 2) -> tuple[int, str, int]:
    answer = ask(connection, AUTHENTICATE, version, auth_bytes=data)
    return answer.error_code, answer.error_message, len(answer.auth_bytes)


def plain(*parts: str) -> bytes:
    return "\0".join(parts).encode()


def scram(mechanism: str, first: bytes) -> Callable[[Raw], list[object]]:
    return lambda connection: [handshake(connection, mechanism), token(connection, first)]


# Each talks on a connection of its own.
TALKS: dict[str, Callable[[Raw], list[object]]] = {
    "another mechanism": lambda c: [handshake(c, "GSSAPI")],
    "another mechanism, v0": lambda c: [handshake(c, "GSSAPI", 0)],
    "lower case": lambda c: [handshake(c, "plain")],
    "wrong password": lambda c: [handshake(c), token(c, plain("", "alice", "wrong"))],
    "unknown user": lambda c: [handshake(c), token(c, plain("", "nobody", "right"))],
    "one part": lambda c: [handshake(c), token(c, b"x", 1)],
    "no user": lambda c: [handshake(c), token(c, plain("", "", "right"))],
    "no password": lambda c: [handshake(c), token(c, plain("", "alice", ""))],
    "another authorization": lambda c: [handshake(c), token(c, plain("bob", "alice", "right"))],
    "junk": scram("SCRAM-SHA-256", b"junk"),
    "another name": scram("SCRAM-SHA-512", b"n,a=bob,n=alice,r=abc"),
    "two handshakes": lambda c: [handshake(c), closed(c, HANDSHAKE, mechanism="PLAIN")],
    "a token first": lambda c: [closed(c, AUTHENTICATE, auth_bytes=b"x")],
    "metadata first": lambda c: [closed(c, 3, topics=[])],
}


def closed(connection: Raw, key: int, **fields: Any) -> bool:
    """Whether the connection ends, after an error of the state where Kafka has one for it."""
    try:
        answer = ask(connection, key, 1, **fields)
    except ConnectionClosed:
        return True
    return bool(answer.error_code == 34 and connection.is_closed_by_server())


def heard(at: Address, talk: Callable[[Raw], list[object]]) -> list[object]:
    with Raw(at.host, at.port) as connection:
        return talk(connection)


@pytest.mark.parametrize("name", TALKS)
def test_each_login_is_answered_as_by_kafka(tailrace: Cluster, kafka: Address, name: str) -> None:
    at = Address.parse(tailrace.bootstrap)
    for _ in range(3):  # Kafka may close before its answer has left
        try:
            expected = heard(kafka, TALKS[name])
            break
        except ConnectionClosed:
            continue
    assert heard(at, TALKS[name]) == expected


def test_javas_clients_log_in_by_each_mechanism(tailrace: Cluster, jvm: JavaTools, tmp_path: Path) -> None:
    """kafka-configs.sh makes the users, once there is one to log in with."""
    reset_admin(tailrace.data_dir)
    admin = tailrace.data_dir / "clients" / "admin.password"
    shell = Shell(jvm, tailrace.bootstrap)

    def file(mechanism: str, name: str, password: str) -> str:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        path = tmp_path / f"{name}-{mechanism}.properties"
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={MODULE}.{module} "
            f'required username="{name}" password="{password}";\n'
        )
        return str(path)

    by = ("--command-config", file("SCRAM-SHA-512", "admin", admin.read_text().strip()))
    entity = ("--entity-type", "users", "--entity-name", "carol")
    for mechanism in MECHANISMS[1:]:
        shell.out(tools.CONFIGS, *by, "--alter", *entity, "--add-config", f"{mechanism}=[iterations=8192,password=pw]")
    told = shell.out(tools.CONFIGS, *by, "--describe", *entity)
    assert "SCRAM-SHA-256=iterations=8192" in told and "SCRAM-SHA-512=iterations=8192" in told
    for mechanism in MECHANISMS:
        shell.out(
            tools.PRODUCER, "--command-config", file(mechanism, "carol", "pw"), "--topic", "t", stdin=f"{mechanism}\n"
        )
    limits = ("--from-beginning", "--max-messages", "3", "--timeout-ms", "40000")
    read = shell.out(tools.CONSUMER, "--command-config", file("PLAIN", "carol", "pw"), "--topic", "t", *limits)
    assert sorted(set(read.split()) & set(MECHANISMS)) == MECHANISMS
    shell.out(tools.CONFIGS, *by, "--alter", *entity, "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM-SHA-256" not in shell.out(tools.CONFIGS, *by, "--describe", *entity)

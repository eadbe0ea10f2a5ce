"""The admin port and every role's health port, beside clients that send nothing, dribble, or send without end."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from support.ports import free_ports
from support.waiting import HUNG_S
from tailrace.testing import Cluster

ROLES = ("controller", "broker", "coordinator", "quota", "gateway")
SILENT = 70
# What one connection's sockets hold on the way is no reading: both buffers, as large as Linux makes them.
HELD_ON_THE_WAY_BYTES = 16 << 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(port=free_ports(1), data_dir=tmp_path_factory.mktemp("ports")) as started:
        yield started


def address_of(cluster: Cluster, role: str) -> tuple[str, int]:
    text = cluster.admin.removeprefix("http://") if role == "admin" else cluster.addresses(role)["http"]
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def ask(address: tuple[str, int], path: str, *headers: str, method: str = "GET") -> tuple[int, bytes]:
    with socket.create_connection(address, HUNG_S) as connection:
        lines = [f"{method} {path} HTTP/1.1", *(headers or ("Host: localhost",)), "Connection: close", "", ""]
        connection.sendall("\r\n".join(lines).encode())
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    return int(answer.split(b" ")[1]), answer.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("role", ["admin", *ROLES])
@pytest.mark.parametrize("sent", [b"", b"GET /v3/clusters HTTP/1.1\r\nx-dribbles: "], ids=["silent", "dribbling"])
def test_seventy_connections_without_a_request_keep_nobody_out(cluster: Cluster, role: str, sent: bytes) -> None:
    address = address_of(cluster, role)
    path = "/v3/clusters" if role == "admin" else "/healthz"
    with ExitStack() as stack:
        for _ in range(SILENT):
            idle = stack.enter_context(socket.create_connection(address, HUNG_S))
            idle.sendall(sent)
        assert [ask(address, path)[0] for _ in range(3)] == [200] * 3


def test_a_body_is_not_read_after_its_refusal(cluster: Cluster) -> None:
    chunk = b"40000\r\n" + b" " * 0x40000 + b"\r\n"
    with socket.create_connection(address_of(cluster, "admin"), HUNG_S) as connection:
        head = "POST /v3/clusters/none/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        sent = 0
        with pytest.raises(ConnectionError):  # a time-out would be one that is neither read nor closed
            while sent < HELD_ON_THE_WAY_BYTES:
                connection.sendall(chunk)
                sent += len(chunk)


def test_a_name_that_a_stranger_gave_to_the_loopback_reaches_nothing(cluster: Cluster) -> None:
    address = address_of(cluster, "admin")
    (row,) = json.loads(ask(address, "/v3/clusters")[1])["data"]
    place = f"/v3/clusters/{row['cluster_id']}/topics"
    assert ask(address, place, "Host: rebound.example.com:8080")[0] == 403
    assert ask(address, place, "Host: localhost", "Origin: http://rebound.example.com")[0] == 403
    name = socket.gethostname()
    assert ask(address, place, f"Host: {name}", f"Origin: http://{name}")[0] == 200

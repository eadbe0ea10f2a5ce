"""queued.max.request.bytes with real processes: half-sent requests stay inside the budget, and others go on."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.raw import request_header
from support.waiting import HUNG_S
from tailrace.testing import Cluster

BUDGET = 128 << 20
# Beside the budget: what a connection may have of its own, and what the processes need for other things.
OWN_BYTES, OTHER_BYTES = 256 << 10, 48 << 20
JOIN_GROUP, PRODUCE = 11, 0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(settings={"queued.max.request.bytes": str(BUDGET), "gateway.handover": "true"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for future in admin.create_topics([NewTopic("t", 1, 1)]).values():
            future.result(HUNG_S)
        yield running


def resident_bytes(cluster: Cluster, role: str) -> int:
    """The highest that it ever was."""
    for line in Path(f"/proc/{cluster.process_id(role)}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise ValueError("no VmHWM")


def send_half(cluster: Cluster, stack: ExitStack, key: int, version: int, size: int, count: int) -> None:
    """Half of so many requests, as far as they are taken."""
    host, _, port = cluster.bootstrap.rpartition(":")
    half, left = bytes(size // 2), {}
    header = request_header(key, version, 1, "half", flexible=False)
    start = header + (struct.pack(">hhii", -1, 1, 1000, 1) if key == PRODUCE else struct.pack(">h", 1) + b"g")
    for _ in range(count):
        sock = stack.enter_context(socket.create_connection((host, int(port))))
        sock.sendall(struct.pack(">i", size) + start)
        sock.setblocking(False)
        left[sock] = len(half)
    while left:
        _, writable, _ = select.select([], list(left), [], 1)
        if not writable:
            return
        for sock in writable:
            try:
                left[sock] -= sock.send(memoryview(half)[: min(left[sock], 1 << 20)])
            except OSError:
                left[sock] = 0
            if not left[sock]:
                del left[sock]


@pytest.mark.parametrize(
    ("role", "key", "version", "size", "count"),
    [("gateway", JOIN_GROUP, 3, 16 << 20, 100), ("broker", PRODUCE, 7, 100_000_000, 15)],
)
def test_half_sent_requests_stay_inside_the_budget_and_others_go_on(
    cluster: Cluster, role: str, key: int, version: int, size: int, count: int
) -> None:
    before = resident_bytes(cluster, role)
    with ExitStack() as stack:
        send_half(cluster, stack, key, version, size, count)
        assert resident_bytes(cluster, role) - before < BUDGET + count * OWN_BYTES + OTHER_BYTES
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 1_000_000})
        failed: list[str] = []

        def delivered(error: object, message: object) -> None:
            if error is not None:
                failed.append(str(error))

        for _ in range(20):
            producer.produce("t", bytes(900_000), on_delivery=delivered)
        assert producer.flush(HUNG_S) == 0 and not failed

"""Hostile requests, byte for byte, and a watch over what they do to everybody else.

The bodies are written by hand: half a million rows as objects would be the client's own trouble.
"""

from __future__ import annotations

import http.client
import re
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.raw import ConnectionClosed, Raw, framed, request_header
from tailrace.records.record import Record, build
from tailrace.testing import Cluster
from tailrace.wire.apis import INTERNAL_APIS

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 2, 3, 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS = 11, 12, 13, 14, 15
CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, OFFSET_FOR_LEADER_EPOCH, DESCRIBE_CONFIGS = 19, 20, 21, 23, 32
CREATE_PARTITIONS = 37
LIST_PARTITION_REASSIGNMENTS, ALTER_CLIENT_QUOTAS, LIST_CONFIG_RESOURCES = 46, 49, 74
ROLES = ("controller", "coordinator", "gateway", "quota")  # one of each; brokers are counted
EVERY_SECONDS = 0.1
# What a role logs when it fails others, or has met a bug of its own.
_TOLD = re.compile(
    r"level=error|by a bug|event=\"?(heartbeat failed|registering again|registration failed|shard dropped|fenced|"
    r"service expired|resigned|metadata is stale|no quota leases|report not sent)"
)


def text(value: str | None) -> bytes:
    """A string, or null."""
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value.encode())) + value.encode()


def data(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def rows(found: Iterable[bytes]) -> bytes:
    listed = list(found)
    return struct.pack(">i", len(listed)) + b"".join(listed)


def repeated(row: bytes, count: int) -> bytes:
    return struct.pack(">i", count) + row * count


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@dataclass(frozen=True)
class Body:
    """One request without its header."""

    key: int
    version: int
    body: bytes


# -- the requests -----------------------------------------------------------------------------------------------------


def metadata(names: bytes) -> Body:
    return Body(METADATA, 5, names + b"\0")


def describe_groups(ids: bytes) -> Body:
    return Body(DESCRIBE_GROUPS, 3, ids + b"\0")


def offset_fetch(group_id: str, topics: bytes) -> Body:
    return Body(OFFSET_FETCH, 5, text(group_id) + topics)


def offset_commit(group_id: str, topic: str, partitions: Iterable[int], note: str = "") -> Body:
    listed = rows(struct.pack(">iqi", number, 1, -1) + text(note) for number in partitions)
    who = text(group_id) + struct.pack(">i", -1) + text("") + text(None)
    return Body(OFFSET_COMMIT, 7, who + rows([text(topic) + listed]))


def delete_records(topics: bytes) -> Body:
    return Body(DELETE_RECORDS, 1, topics + struct.pack(">i", 1000))


def offset_for_leader_epoch(topics: bytes) -> Body:
    return Body(OFFSET_FOR_LEADER_EPOCH, 3, struct.pack(">i", -2) + topics)


def list_offsets(topics: bytes) -> Body:
    return Body(LIST_OFFSETS, 5, struct.pack(">ib", -1, 0) + topics)


def describe_configs(resources: bytes) -> Body:
    return Body(DESCRIBE_CONFIGS, 1, resources + b"\1")


def list_config_resources(kinds: bytes) -> Body:
    return Body(LIST_CONFIG_RESOURCES, 1, uvarint(len(kinds) + 1) + kinds + b"\0")


def fetch(topics: bytes, *, max_wait_ms: int = 0, min_bytes: int = 1) -> Body:
    head = struct.pack(">iiiibii", -1, max_wait_ms, min_bytes, 1 << 20, 0, 0, -1)
    return Body(FETCH, 11, head + topics + rows([]) + text(""))


def fetched(partition: int) -> bytes:
    return struct.pack(">iiqqi", partition, -1, 0, -1, 1 << 20)


def find_coordinator(group_id: str) -> Body:
    return Body(FIND_COORDINATOR, 0, text(group_id))


def leave_group(group_id: str, members: Iterable[str]) -> Body:
    return Body(LEAVE_GROUP, 3, text(group_id) + rows(text(member) + text(None) for member in members))


def join_group(group_id: str, subscription: bytes, member: str = "") -> Body:
    protocols = rows([text("range") + data(subscription)])
    return Body(JOIN_GROUP, 0, text(group_id) + struct.pack(">i", 60_000) + text(member) + text("consumer") + protocols)


def sync_group(group_id: str, member: str, assignments: Iterable[tuple[str, bytes]], generation_id: int = 1) -> Body:
    listed = rows(text(name) + data(assignment) for name, assignment in assignments)
    return Body(SYNC_GROUP, 0, text(group_id) + struct.pack(">i", generation_id) + text(member) + listed)


def create_on_each(name: str, brokers: int) -> Body:
    """A topic with a partition for each broker, which leads it; all brokers have replicas of it."""
    nodes = range(brokers)
    placed = (rows(struct.pack(">i", (n + leader) % brokers) for n in nodes) for leader in nodes)
    listed = rows(struct.pack(">i", index) + replicas for index, replicas in enumerate(placed))
    topic = text(name) + struct.pack(">ih", -1, -1) + listed + rows([])
    return Body(CREATE_TOPICS, 4, rows([topic]) + struct.pack(">i?", 30_000, False))


def create_topics(names: Iterable[str], partitions: int = 1, *, validate_only: bool = False) -> Body:
    topics = rows(text(name) + struct.pack(">ih", partitions, 1) + rows([]) + rows([]) for name in names)
    return Body(CREATE_TOPICS, 4, topics + struct.pack(">i?", 30_000, validate_only))


def create_partitions(name: str, count: int) -> Body:
    return Body(
        CREATE_PARTITIONS, 1, rows([text(name) + struct.pack(">ii", count, -1)]) + struct.pack(">i?", 30_000, False)
    )


def delete_topics(names: Iterable[str]) -> Body:
    return Body(DELETE_TOPICS, 3, rows(map(text, names)) + struct.pack(">i", 30_000))


def alter_client_quotas(clients: Iterable[str]) -> Body:
    operation = rows([text("producer_byte_rate") + struct.pack(">d?", 1e6, False)])
    entries = rows(rows([text("client-id") + text(client)]) + operation for client in clients)
    return Body(ALTER_CLIENT_QUOTAS, 0, entries + b"\1")


# -- a client that sends them -----------------------------------------------------------------------------------------


class Client(Raw):
    """One connection that may ask anything, by the port of a broker at the gateway."""

    def __init__(self, cluster: Cluster, node: int = 0, *, timeout_s: float = 60) -> None:
        host, port = split_address(cluster.bootstrap.partition(",")[0])
        super().__init__(host, port + node, timeout_s=timeout_s, client_id="abuse")

    def begin(self, asked: Body) -> None:
        """Sends without waiting for the answer."""
        self.correlation_id += 1
        self.send_bytes(framed_request(asked, self.correlation_id, self.client_id))

    def answer(self, asked: Body) -> bytes:
        """The answer's frame; b"" where the connection was closed instead."""
        try:
            self.begin(asked)
            return self.receive_frame()
        except (ConnectionClosed, BrokenPipeError, ConnectionResetError):
            return b""


def framed_request(asked: Body, correlation_id: int, client_id: str) -> bytes:
    """With its header and its size."""
    flexible = INTERNAL_APIS[asked.key].flexible(asked.version)
    return framed(request_header(asked.key, asked.version, correlation_id, client_id, flexible) + asked.body)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port"."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


# -- the watch --------------------------------------------------------------------------------------------------------


@dataclass
class Probe:
    """One request that is sent every 100 ms, and how long its answers took."""

    name: str
    role: str
    ask: Callable[[], object]
    waits_ms: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass
class Seen:
    """What one attack did: the longest wait of each probe, and the memory that each role had at its most."""

    attack: str
    waits_ms: dict[str, float] = field(default_factory=dict)
    peaks_mb: dict[str, int] = field(default_factory=dict)
    holds_ms: dict[str, float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


class Watch:
    """Asks every role ten times a second as an ordinary client would, each over a connection of its own."""

    def __init__(self, cluster: Cluster, topic: str, brokers: int = 1, holds: Path | None = None) -> None:
        """Each broker leads the partition of the topic that has its number. holds: see bench/holds."""
        self.cluster = cluster
        self._holds = holds
        self._topic = topic
        self._brokers = range(brokers)
        self._clients: list[Client] = []

    def _asking(self, asked: Body, node: int = 0) -> Callable[[], object]:
        client = Client(self.cluster, node)
        self._clients.append(client)

        def ask() -> object:
            answer = client.answer(asked)
            assert answer, "closed"
            return answer

        return ask

    def _getting(self, address: str, path: str) -> Callable[[], object]:
        def ask() -> object:
            connection = http.client.HTTPConnection(*split_address(address), timeout=60)
            try:
                connection.request("GET", path)
                assert connection.getresponse().status == 200
            finally:
                connection.close()
            return None

        return ask

    def _of_broker(self, node: int) -> list[Probe]:
        number, role = struct.pack(">i", node), f"broker-{node}"
        produced = text(None) + struct.pack(">hi", 1, 30_000)
        produced += rows([text(self._topic) + rows([number + data(a_batch())])])
        fetch_one = fetch(rows([text(self._topic) + rows([fetched(node)])]))
        return [
            Probe("produce", role, self._asking(Body(PRODUCE, 7, produced), node)),
            Probe("fetch", role, self._asking(fetch_one, node)),
        ]

    def _make(self) -> list[Probe]:
        heartbeat = text("nobody") + struct.pack(">i", 1) + text("nobody")
        reassignments = Body(LIST_PARTITION_REASSIGNMENTS, 0, struct.pack(">i", 1000) + b"\0\0")
        return [
            *(probe for node in self._brokers for probe in self._of_broker(node)),
            Probe("metadata", "gateway", self._asking(metadata(rows([text(self._topic)])))),
            Probe("heartbeat", "coordinator", self._asking(Body(HEARTBEAT, 0, heartbeat))),
            Probe("reassignments", "controller", self._asking(reassignments)),
            Probe("REST", "gateway", self._getting(self.cluster.admin.removeprefix("http://"), "/v3/clusters")),
            Probe("health", "quota", self._getting(self.cluster.addresses("quota")["http"], "/readyz")),
        ]

    def _processes(self) -> dict[str, int]:
        found = {role: self.cluster.process_id(role) for role in ROLES}
        return {f"broker-{node}": self.cluster.process_id("broker", node) for node in self._brokers} | found

    @contextmanager
    def over(self, attack: str) -> Iterator[Seen]:
        """Watches while the block runs, and for a moment after it."""
        seen = Seen(attack)
        pids = self._processes()
        for pid in pids.values():
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # proc(5): the peak begins anew
            if self._holds is not None:
                (self._holds / str(pid)).open("r+b").write(bytes(8))
        logged = len(self.cluster.log_path.read_bytes())
        probes, over = self._make(), threading.Event()
        threads = [threading.Thread(target=_keep_asking, args=(probe, over)) for probe in probes]
        for thread in threads:
            thread.start()
        try:
            yield seen
        finally:
            over.wait(5 * EVERY_SECONDS)
            over.set()
            for thread in threads:
                thread.join()
            while self._clients:
                self._clients.pop().close()
        for probe in probes:
            name = f"{probe.role}: {probe.name}"
            seen.waits_ms[name] = max(probe.waits_ms, default=0.0)
            seen.errors += [f"{name}: {error}" for error in probe.errors]
        now = self._processes()
        for role, pid in pids.items():
            if now[role] != pid:
                seen.died.append(role)
            else:
                seen.peaks_mb[role] = peak_mb(pid)
                if self._holds is not None:
                    (seconds,) = struct.unpack("d", (self._holds / str(pid)).read_bytes())
                    seen.holds_ms[role] = 1000 * seconds
        lines = self.cluster.log_path.read_bytes()[logged:].decode(errors="replace").splitlines()
        seen.complaints += [line for line in lines if _TOLD.search(line)]


def _keep_asking(probe: Probe, over: threading.Event) -> None:
    while not over.is_set():
        began = time.perf_counter()
        try:
            probe.ask()
        except (AssertionError, OSError, http.client.HTTPException, ConnectionClosed) as failed:
            probe.errors.append(repr(failed))
            return
        took = time.perf_counter() - began
        probe.waits_ms.append(1000 * took)
        over.wait(max(0.0, EVERY_SECONDS - took))


def peak_mb(pid: int) -> int:
    """The most memory that the process had since its peak was begun anew."""
    return _status_mb(pid, "VmHWM")


def resident_mb(pid: int) -> int:
    """The memory that the process has now."""
    return _status_mb(pid, "VmRSS")


def _status_mb(pid: int, name: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) // 1024
    return 0


def a_batch() -> bytes:
    return bytes(build([Record(timestamp=0, key=None, value=b"a record")]))


def table(found: Iterable[Seen]) -> list[str]:
    """Lines for a report: of each attack the worst wait of each probe, and the peaks of memory."""
    lines = []
    for seen in found:
        waits = ", ".join(f"{name} {wait:,.0f}" for name, wait in seen.waits_ms.items())
        peaks = ", ".join(f"{role} {peak}" for role, peak in seen.peaks_mb.items())
        lines += [seen.attack, f"    worst wait, ms: {waits}", f"    peak memory, MB: {peaks}"]
        if seen.holds_ms:
            held = ", ".join(f"{role} {hold:.1f}" for role, hold in seen.holds_ms.items())
            lines.append(f"    longest hold of the event loop, ms of processor time: {held}")
    return lines

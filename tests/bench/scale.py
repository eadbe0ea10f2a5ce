"""`PYTHONPATH=tests python -m bench.scale`: what 10, 1,000 and 10,000 partitions on one broker cost.

Each count has its own fresh cluster. Topics have at most a hundred partitions, as people make them. The load is one
16 KiB batch a request, round robin over all partitions, acks=1, through the gateway: 4 connections with 5 in flight.
It reports only.
"""

import os
import shutil
import struct
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

from bench.quiet import process_seconds
from bench.report import say
from bench.section import Section
from bench.startup import connect, idle_shares, processes, pss_bytes
from support import batches
from support.raw import build
from tailrace.log.filesystem.checkpoints import CLEAN_SHUTDOWN
from tailrace.testing import Cluster

SECTION = Section("scale", "bench.scale")
CREATE_TOPICS, DELETE_TOPICS, METADATA, PRODUCE = 19, 20, 3, 0
PARTITIONS_A_TOPIC = 100
CONNECTIONS, IN_FLIGHT, BATCH_BYTES = 4, 5, 16 * 1024
PRODUCE_VERSION = 8
MOST_AT_ONCE = 5000
NOT_LEADER, RETRY_SECONDS = 6, 0.01
_FRAME = struct.Struct(">i")
ERROR_FROM_END = 2 + 8 + 8 + 8 + 4 + 2 + 4  # where a v8 answer without a message has its error code, from its end


@dataclass
class Figures:
    """One count's figures; seconds, bytes, shares of a core."""

    partitions: int
    values: dict[str, float] = field(default_factory=dict)


def topics_of(partitions: int) -> dict[str, int]:
    """Topic names of one length, and their partitions."""
    each = min(PARTITIONS_A_TOPIC, partitions)
    return {f"scale-{number:04d}": each for number in range(partitions // each)}


def create(bootstrap: str, topics: dict[str, int], configs: dict[str, str] | None = None) -> None:
    """All topics, 5,000 partitions with a request: one of more than 10,000 records is refused, as in Kafka."""
    settings = [{"name": name, "value": value} for name, value in (configs or {}).items()]
    rows = [
        {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": settings}
        for name, count in topics.items()
    ]
    most = max(1, MOST_AT_ONCE // max(topics.values()))
    with connect(bootstrap) as raw:
        for some in (rows[at : at + most] for at in range(0, len(rows), most)):
            answer = raw.ask(build(CREATE_TOPICS, topics=some, timeout_ms=120_000, validate_only=False), 5)
            assert not any(row.error_code for row in answer.topics), answer.topics[0]


def delete(bootstrap: str, topics: dict[str, int]) -> None:
    with connect(bootstrap) as raw:
        answer = raw.ask(build(DELETE_TOPICS, topic_names=list(topics), timeout_ms=120_000), 4)
        assert not any(row.error_code for row in answer.responses), answer.responses[0]


def metadata(bootstrap: str) -> int:
    """How many partitions an answer for all topics names."""
    with connect(bootstrap) as raw:
        answer = raw.ask(build(METADATA, topics=None, allow_auto_topic_creation=False), 8)
        return sum(len(topic.partitions) for topic in answer.topics)


def heads(topics: dict[str, int], batch_bytes: int) -> Iterator[bytes]:
    """A Produce v8 request for each partition without its batch, which comes behind it."""
    for index in range(max(topics.values())):
        for name in topics:
            key = name.encode()
            body = struct.pack(">hhihhhii", PRODUCE, PRODUCE_VERSION, index, 0, -1, 1, 30_000, 1)
            body += struct.pack(f">h{len(key)}siii", len(key), key, 1, index, batch_bytes)
            yield _FRAME.pack(len(body) + batch_bytes) + body


def drive(bootstrap: str, requests: list[bytes], batch: bytes, count: int, in_flight: int) -> None:
    """One connection: `count` requests, in turn from the list, `in_flight` at a time; every answer is checked.

    A partition whose log is still being recovered is asked again, as every client does.
    """
    todo = deque(islice(cycle(requests), count))
    under_way: deque[bytes] = deque()
    pause = threading.Event()  # never set
    with connect(bootstrap) as raw:
        buffer = bytearray()
        while todo or under_way:
            heads_now = [todo.popleft() for _ in range(min(len(todo), in_flight - len(under_way)))]
            raw.send_bytes(b"".join([piece for head in heads_now for piece in (head, batch)]))
            under_way.extend(heads_now)
            chunk = raw.socket.recv(1 << 16)
            assert chunk, "the connection was closed"
            buffer += chunk
            at = 0
            while len(buffer) - at >= 4 and len(buffer) - at >= (end := _FRAME.unpack_from(buffer, at)[0] + 4):
                at += end
                (code,) = struct.unpack_from(">h", buffer, at - ERROR_FROM_END)
                assert code in (0, NOT_LEADER), f"error {code}"
                asked = under_way.popleft()
                if code == NOT_LEADER:
                    todo.append(asked)
                    pause.wait(RETRY_SECONDS)
            del buffer[:at]


def load(bootstrap: str, topics: dict[str, int], requests: int, batch_bytes: int) -> float:
    """Seconds for that many requests over all partitions; each connection has its own share of them."""
    batch = batches.batch(b"x" * (batch_bytes - 100))
    wanted = list(heads(topics, len(batch)))
    shares = [wanted[number::CONNECTIONS] for number in range(CONNECTIONS)]
    began = time.perf_counter()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        runs = [
            pool.submit(drive, bootstrap, share, batch, requests // CONNECTIONS, IN_FLIGHT) for share in shares if share
        ]
        for run in runs:
            run.result()
    return time.perf_counter() - began


def timed(figures: Figures, name: str, began: float) -> None:
    figures.values[name] = time.perf_counter() - began
    say(f"  {figures.partitions:>6} {name:<28} {figures.values[name]:8.3f}")


def note(figures: Figures, name: str, value: float) -> None:
    figures.values[name] = value
    say(f"  {figures.partitions:>6} {name:<28} {value:12,.4f}")


def measure(partitions: int, options: Namespace, folder: Path) -> Figures:
    """Everything at one count."""
    figures, topics = Figures(partitions), topics_of(partitions)
    cluster = Cluster(data_dir=folder, arguments=("--listen", "127.0.0.1"))
    try:
        cluster.start()
        empty = pss_bytes(cluster.process_id("broker"))
        began = time.perf_counter()
        create(cluster.bootstrap, topics)
        timed(figures, "create s", began)
        while metadata(cluster.bootstrap) < partitions:  # the answer says that the controller has them
            pass
        timed(figures, "create, known to the gateway s", began)
        began = time.perf_counter()
        metadata(cluster.bootstrap)
        timed(figures, "metadata s", began)
        began = time.perf_counter()
        load(cluster.bootstrap, topics, max(partitions, CONNECTIONS), 200)
        timed(figures, "first record everywhere s", began)
        spent = process_seconds(cluster.process_id("broker"))
        seconds = load(cluster.bootstrap, topics, options.requests, BATCH_BYTES)
        note(figures, "requests/s", options.requests / seconds)
        broker = cluster.process_id("broker")
        note(figures, "broker CPU us/request", (process_seconds(broker) - spent) / options.requests * 1e6)
        broker_state(figures, cluster, empty)
        idle_shares(cluster, options.settle)
        for name, share in idle_shares(cluster, options.idle).items():
            note(figures, f"idle {name}", share)
        restarts(figures, cluster, topics)
        began = time.perf_counter()
        delete(cluster.bootstrap, topics)
        timed(figures, "delete s", began)
    finally:
        cluster.stop()
    return figures


def broker_state(figures: Figures, cluster: Cluster, empty: int) -> None:
    broker = cluster.process_id("broker")
    note(figures, "broker MB", pss_bytes(broker) / 1e6)
    note(figures, "KB a partition", (pss_bytes(broker) - empty) / figures.partitions / 1e3)
    note(figures, "all roles MB", sum(map(pss_bytes, processes(cluster).values())) / 1e6)
    note(figures, "broker fds", len(os.listdir(f"/proc/{broker}/fd")))


def restarts(figures: Figures, cluster: Cluster, topics: dict[str, int]) -> None:
    """A clean and an unclean one: until ready, and until every partition took a record."""
    began = time.perf_counter()
    cluster.stop()
    timed(figures, "clean stop s", began)
    marker = cluster.data_dir / "broker-0" / CLEAN_SHUTDOWN
    note(figures, "clean stop was in time (0: killed)", marker.exists())
    for kind in ("clean", "unclean"):
        began = time.perf_counter()
        cluster.start()
        timed(figures, f"{kind} start, ready s", began)
        load(cluster.bootstrap, topics, max(figures.partitions, CONNECTIONS), 200)
        timed(figures, f"{kind} start, all written s", began)
        if kind == "clean":
            cluster.kill_all()


def table(found: list[Figures]) -> str:
    """A line a figure, a column a count."""
    lines = ["| partitions | " + " | ".join(f"{figures.partitions:,}" for figures in found) + " |"]
    lines.append("|---" + "|--:" * len(found) + "|")
    for name in found[0].values:
        cells = [shown(name, figures.values[name]) for figures in found]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    first = found[0].values["requests/s"]
    shares = [f"{figures.values['requests/s'] / first:.2f}" for figures in found]
    lines.append("| requests/s, of the first column's (aim 0.7) | " + " | ".join(shares) + " |")
    return "\n".join(lines)


def shown(name: str, value: float) -> str:
    if name.startswith("idle"):
        return f"{value:.1%}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def main(arguments: list[str]) -> None:
    parser = SECTION.parser("Measures many partitions.")
    parser.add_argument("--partitions", type=int, nargs="+", default=[10, 1_000, 10_000])
    parser.add_argument("--requests", type=int, default=60_000, help="of the load, one 16 KiB batch each")
    parser.add_argument("--settle", type=float, default=8.0, help="seconds before idleness is measured")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds over which it is")
    parser.add_argument("--folder", type=Path, help="where the data goes (a temporary directory)")
    options = parser.parse_args(arguments)
    found = []
    for partitions in options.partitions:
        folder = Path(tempfile.mkdtemp(prefix="tailrace-scale-", dir=options.folder))
        try:
            found.append(measure(partitions, options, folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    SECTION.write([table(found)], arguments, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])

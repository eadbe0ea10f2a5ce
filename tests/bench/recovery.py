"""`PYTHONPATH=tests python -m bench.recovery`: how long a broker takes to serve after kill -9, at growing log sizes.

One broker and all other roles, one topic; the log grows from size to size, is left alone until housekeeping has written
its checkpoints, and everything is killed at once (SIGKILL; the page cache stays). Then: the time from the start to
ready, to the first acknowledged record of every partition (a partition is led once its log is recovered), and how many
bytes lay behind the recovery points. Then the same once more after a clean stop. At last a single long tail: how long
its recovery takes, and what another partition of that broker notices of it. It reports only.
"""

import shutil
import struct
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import scale
from bench.report import say
from bench.section import Section
from bench.startup import connect
from support import batches
from tailrace.errors import ErrorCode
from tailrace.log.filesystem.checkpoints import RECOVERY_POINT, parse_offsets
from tailrace.log.segment.segment import LOG_SUFFIX
from tailrace.testing import Cluster

TOPIC = "bench-recovery"
BATCH_BYTES = 900_000
SEGMENT_BYTES = 256 << 20  # a quarter of the default: what is not flushed yet is at most one segment a partition
TAIL_TOPIC, BESIDE_TOPIC = "bench-recovery-tail", "bench-recovery-beside"
ONE_SEGMENT = 2**31 - 1
TAIL_HEADER = "| unflushed | in batches of | ready s | recovered s | records beside it | p50 ms | p99 ms | longest ms |"
SECTION = Section("recovery", "bench.recovery")
HEADER = "| log | killed | behind the recovery points | ready s | every partition took a record s |"


def log_bytes(broker: Path) -> int:
    """Of all segments."""
    return sum(path.stat().st_size for path in broker.glob(f"{TOPIC}-*/*{LOG_SUFFIX}"))


def tail_bytes(broker: Path) -> int:
    """Of the segments that a recovery looks into: those that end behind the recovery point."""
    content = (broker / RECOVERY_POINT).read_bytes() if (broker / RECOVERY_POINT).exists() else b"0\n0\n"
    points = parse_offsets(content)
    found = 0
    for directory in broker.glob(f"{TOPIC}-*"):
        point = points.get((TOPIC, int(directory.name.rpartition("-")[2])), 0)
        segments = sorted(directory.glob(f"*{LOG_SUFFIX}"))
        bases = [int(path.name.removesuffix(LOG_SUFFIX)) for path in segments]
        first = max((index for index, base in enumerate(bases) if base <= point), default=0)
        found += sum(path.stat().st_size for path in segments[first:])
    return found


def code_of(answer: bytes) -> int:
    """The error code of a Produce answer with one partition and no message."""
    return int(struct.unpack_from(">h", answer, len(answer) - scale.ERROR_FROM_END)[0])


def first_records(bootstrap: str, topics: dict[str, int]) -> None:
    """Every partition takes a record; who is not led yet is asked again."""
    batch, pause = batches.batch(b"x" * 100), threading.Event()
    with connect(bootstrap) as raw:
        for head in scale.heads(topics, len(batch)):
            while True:
                raw.send_bytes(head + batch)
                if not (code := code_of(raw.receive_frame())):
                    break
                assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER, f"error {code}"
                pause.wait(0.002)


def restarted(cluster: Cluster, topics: dict[str, int]) -> tuple[float, float]:
    """Seconds until ready, and until every partition took a record."""
    began = time.perf_counter()
    cluster.start()
    ready = time.perf_counter() - began
    first_records(cluster.bootstrap, topics)
    return ready, time.perf_counter() - began


def settle(cluster: Cluster, seconds: float) -> None:
    """Nothing happens for so long."""
    try:
        cluster.wait_for("died", since=cluster.now, timeout_seconds=seconds)
    except TimeoutError:
        return
    raise RuntimeError("a role died while nothing happened")


def measure(sizes: list[float], partitions: int, seconds: float, folder: Path) -> list[str]:
    """A line of the table for each size, and one for a clean start."""
    topics, lines = {TOPIC: partitions}, []
    broker = folder / "broker-0"
    cluster = Cluster(data_dir=folder, arguments=("--listen", "127.0.0.1"))

    def line(kind: str, tail: int, figures: tuple[float, float]) -> None:
        ready, served = figures
        size = log_bytes(broker) / 1e9
        lines.append(f"| {size:.1f} GB | {kind} | {tail / 1e6:,.0f} MB | {ready:.2f} | {served:.2f} |")
        say(lines[-1])

    try:
        cluster.start()
        scale.create(cluster.bootstrap, topics, {"segment.bytes": str(SEGMENT_BYTES)})
        for size in sizes:
            missing = max(0, int(size * 1e9) - log_bytes(broker))
            scale.load(cluster.bootstrap, topics, missing // BATCH_BYTES + partitions, BATCH_BYTES)
            settle(cluster, seconds)
            cluster.kill_all()
            tail = tail_bytes(broker)
            line("with SIGKILL", tail, restarted(cluster, topics))
        cluster.stop()
        line("stopped", 0, restarted(cluster, topics))
    finally:
        cluster.stop()
    return lines


def beside(bootstrap: str, ready: threading.Event, over: threading.Event) -> list[float]:
    """Milliseconds of each record of another partition, one at a time, until it is over."""
    batch, found = batches.batch(b"x" * 100), []
    (head,) = scale.heads({BESIDE_TOPIC: 1}, len(batch))
    with connect(bootstrap) as raw:
        raw.send_bytes(head + batch)  # opens its log
        raw.receive_frame()
        ready.set()
        while not over.is_set():
            began = time.perf_counter()
            raw.send_bytes(head + batch)
            assert not code_of(raw.receive_frame())
            found.append((time.perf_counter() - began) * 1000)
    return sorted(found)


def measure_tail(size: float, batch_bytes: int, folder: Path) -> str:
    """A line of the table: one partition of so many GB, all of it unflushed, killed; and one that works meanwhile."""
    cluster = Cluster(data_dir=folder, arguments=("--listen", "127.0.0.1"))
    requests = int(size * 1e9) // batch_bytes * scale.CONNECTIONS  # of which one partition has one connection's share
    try:
        cluster.start()
        for topic in (TAIL_TOPIC, BESIDE_TOPIC):
            scale.create(cluster.bootstrap, {topic: 1}, {"segment.bytes": str(ONE_SEGMENT)})
        scale.load(cluster.bootstrap, {TAIL_TOPIC: 1}, requests, batch_bytes)
        cluster.kill_all()
        began = time.perf_counter()
        cluster.start()
        served = time.perf_counter() - began
        ready, over = threading.Event(), threading.Event()
        with ThreadPoolExecutor(1) as pool:
            pings = pool.submit(beside, cluster.bootstrap, ready, over)
            try:
                ready.wait(60)
                first_records(cluster.bootstrap, {TAIL_TOPIC: 1})
                recovered = time.perf_counter() - began
            finally:
                over.set()
            found = pings.result()
    finally:
        cluster.stop()
    middle, most = found[len(found) // 2], found[int(len(found) * 0.99)]
    line = f"| {size:.1f} GB | {batch_bytes:,} bytes | {served:.2f} | {recovered:.2f} | {len(found):,} "
    line += f"| {middle:.2f} | {most:.2f} | {found[-1]:.1f} |"
    say(line)
    return line


def main(arguments: list[str]) -> None:
    parser = SECTION.parser("Measures recovery.")
    parser.add_argument("--sizes", type=float, nargs="*", default=[1, 5, 10], help="GB of log, growing")
    parser.add_argument("--tail", type=float, default=1.9, help="GB of the long tail: one segment at most")
    parser.add_argument("--tail-batches", type=int, nargs="*", default=[900_000, 16_384, 2_048], help="bytes")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--settle", type=float, default=8.0, help="seconds between the last record and the kill")
    parser.add_argument("--folder", type=Path, help="where the data goes (a temporary directory)")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="tailrace-recovery-", dir=options.folder))
    try:
        lines = measure(options.sizes, options.partitions, options.settle, folder / "logs") if options.sizes else []
        tails = [measure_tail(options.tail, size, folder / f"tail-{size}") for size in options.tail_batches]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    table = [HEADER, "|---|---|--:|--:|--:|", *lines]
    table += ["", TAIL_HEADER, "|--:|--:|--:|--:|--:|--:|--:|--:|", *tails]
    SECTION.write(table, arguments, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])

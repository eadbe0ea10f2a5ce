"""`PYTHONPATH=tests python -m bench.recovery`: how long a broker takes to serve after kill -9, at growing log sizes.

One broker and all other roles, one topic; the log grows from size to size, is left alone until housekeeping has written
its checkpoints, and everything is killed at once (SIGKILL; the page cache stays). Then: the time from the start to
ready, to the first acknowledged record of every partition (their logs are recovered when first used), and how many
bytes lay behind the recovery points. At the end the same once more after a clean stop. It reports only.
"""

import shutil
import sys
import tempfile
import time
from argparse import ArgumentParser
from pathlib import Path

from bench import machine, report, scale
from bench.report import say
from tailrace.log.checkpoints import RECOVERY_POINT, parse_offsets
from tailrace.log.segment import LOG_SUFFIX
from tailrace.testing import Cluster

TOPIC = "bench-recovery"
BATCH_BYTES = 900_000
SEGMENT_BYTES = 256 << 20  # a quarter of the default: what is not flushed yet is at most one segment a partition
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


def restarted(cluster: Cluster, topics: dict[str, int]) -> tuple[float, float]:
    """Seconds until ready, and until every partition took a record."""
    began = time.perf_counter()
    cluster.start()
    ready = time.perf_counter() - began
    scale.load(cluster.bootstrap, topics, max(sum(topics.values()), scale.CONNECTIONS), 200)
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


def main(arguments: list[str]) -> None:
    parser = ArgumentParser(prog="python -m bench.recovery", description="Measures recovery. Never fails.")
    parser.add_argument("--sizes", type=float, nargs="+", default=[1, 5, 10], help="GB of log, growing")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--settle", type=float, default=8.0, help="seconds between the last record and the kill")
    parser.add_argument("--folder", type=Path, help="where the data goes (a temporary directory)")
    parser.add_argument("--output", type=Path, default=report.DOCUMENT, help="the report to rewrite")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="tailrace-recovery-", dir=options.folder))
    try:
        lines = measure(options.sizes, options.partitions, options.settle, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    command = "Command: `PYTHONPATH=tests python -m bench.recovery`."
    table = [HEADER, "|---|---|--:|--:|--:|", *lines]
    report.write_section("recovery", "\n".join([*machine.describe(), command, "", *table]), options.output)


if __name__ == "__main__":
    main(sys.argv[1:])

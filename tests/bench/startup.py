"""`PYTHONPATH=tests python -m bench.startup`: how long `tailrace up` takes, what it costs when idle, its memory.

Start: from exec of `up` to the first acknowledged record (acks=all) of a raw client that was running before. The client
is told of each role that opens or becomes ready and tries at once, so nothing is measured that polls. It reports only.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from bench.quiet import process_seconds
from support import batches
from support.ports import free_ports
from support.raw import ConnectionClosed, Raw, build
from tailrace.testing import Cluster
from tailrace.testing.cluster import UP_COMMAND

PRODUCE, METADATA, CREATE_TOPICS = 0, 3, 19
PRODUCE_VERSION = 9
TOPIC = "startup"
SETTLE_SECONDS = 5.0


def create_topic(bootstrap: str) -> None:
    with connect(bootstrap) as raw:
        topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        answer = raw.ask(build(CREATE_TOPICS, topics=[topic], timeout_ms=10_000, validate_only=False), 5)
        assert answer.topics[0].error_code in {0, 36}, answer


def connect(bootstrap: str) -> Raw:
    host, _, port = bootstrap.rpartition(":")
    return Raw(host, int(port), timeout_s=30)


def acknowledged(bootstrap: str) -> bool:
    """Whether one record was written just now."""
    partition = {"index": 0, "records": batches.batch(b"first")}
    request = build(
        PRODUCE,
        transactional_id=None,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[{"name": TOPIC, "partition_data": [partition]}],
    )
    try:
        with connect(bootstrap) as raw:
            answer = raw.ask(request, PRODUCE_VERSION)
    except (ConnectionError, ConnectionClosed):
        return False
    return bool(answer.responses[0].partition_responses[0].error_code == 0)


def start(cluster: Cluster, bootstrap: str, created: bool) -> tuple[float, float]:
    """Seconds to the first acknowledged record and to the announcement that all is ready."""
    began = time.perf_counter()
    cluster.launch()
    acknowledged_at = ready_at = 0.0
    mark = 0
    while not (acknowledged_at and ready_at):
        event = cluster.wait_next(mark)
        mark += 1
        if event["event"] == "all_ready":
            ready_at = time.perf_counter() - began
            if not created:
                create_topic(bootstrap)
        if not acknowledged_at and event["event"] in {"opened", "ready", "all_ready"} and acknowledged(bootstrap):
            acknowledged_at = time.perf_counter() - began
    return acknowledged_at, ready_at


def processes(cluster: Cluster) -> dict[str, int]:
    run = cluster.data_dir / "run"
    return {"up": cluster.pid, **{path.stem: int(path.read_text()) for path in sorted(run.glob("*-*.pid"))}}


def pss_bytes(pid: int) -> int:
    """Proportional set size (proc_pid_smaps(5)): shared pages count once over all processes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def idle_shares(cluster: Cluster, seconds: float) -> dict[str, float]:
    """CPU time over `seconds` in which nothing happens, by process, as a share of one core; none if no time."""
    if seconds <= 0:
        return {}
    pids = processes(cluster)
    before = {name: process_seconds(pid) for name, pid in pids.items()}
    try:
        cluster.wait_for("died", since=cluster.now, timeout_seconds=seconds)
    except TimeoutError:
        return {name: (process_seconds(pid) - before[name]) / seconds for name, pid in pids.items()}
    raise RuntimeError("a role died while nothing happened")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.startup")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--idle-seconds", type=float, default=10.0)
    parser.add_argument("--command", help="what to run in place of `tailrace up`")
    options = parser.parse_args()
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory(prefix="tailrace-startup-") as directory:
        port = free_ports(1)
        cluster = Cluster(
            data_dir=Path(directory),
            port=port,
            arguments=("--listen", "127.0.0.1"),
            environ=environ,
            command=options.command.split() if options.command else UP_COMMAND,
        )
        bootstrap = f"127.0.0.1:{port}"
        fresh = start(cluster, bootstrap, created=False)
        cluster.stop()
        rounds = []
        for _ in range(options.rounds):
            rounds.append(start(cluster, bootstrap, created=True))
            cluster.stop()
        start(cluster, bootstrap, created=True)
        idle_shares(cluster, SETTLE_SECONDS)  # what is loaded after readiness is start, not idleness
        idle = idle_shares(cluster, options.idle_seconds)
        memory = {name: pss_bytes(pid) / 1e6 for name, pid in processes(cluster).items()}
        cluster.stop()
    first, ready = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"cores                       {os.cpu_count()}, load {os.getloadavg()[0]:.1f}")
    print(f"fresh directory, ready      {fresh[1]:.2f} s")
    print(f"first acknowledged record   {first:.2f} s, median of {len(rounds)}: {shown(rounds, 0)}")
    print(f"all ready                   {ready:.2f} s, median of {len(rounds)}: {shown(rounds, 1)}")
    parts = ", ".join(f"{name} {share * 100:.1f}" for name, share in idle.items())
    print(f"idle                        {sum(idle.values()) * 100:.1f} % of a core: {parts}")
    parts = ", ".join(f"{name} {size:.0f}" for name, size in memory.items())
    print(f"memory, sum of PSS          {sum(memory.values()):.0f} MB: {parts}")


def shown(rounds: list[tuple[float, float]], column: int) -> str:
    return " ".join(f"{row[column]:.2f}" for row in rounds)


if __name__ == "__main__":
    main()
